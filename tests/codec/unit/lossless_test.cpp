// SPDX-License-Identifier: Apache-2.0
// Lossless coding: planes of floats, the choice of codes, exact values, sizes and what is refused.

#include "codec/lossless/lossless.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/entropy/rans.hpp"
#include "codec/lossless/float_planes.hpp"
#include "codec/unit/float_cases.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

std::unique_ptr<Compressor> lossless(const std::string& name) {
  return make_compressor(name, {.coding = Coding::lossless});
}

/// The decoded values, bit for bit: only -0 is neutral for both zeros.
std::vector<float> exact(const Compressor& codec, std::span<const std::byte> payload,
                         std::size_t count) {
  Workspace workspace;
  std::vector<float> sum(count, -0.0f);
  codec.decode_add(payload, 1.0f, workspace, sum);
  return sum;
}

/// What the compressor without coding sends of these values.
std::vector<float> sent_plainly(const std::string& name, std::span<const float> values) {
  const auto plain = make_compressor(name);
  return exact(*plain, encode(*plain, values), values.size());
}

/// Entropy of the exponents of `values`, where +0 may be a kind of its own [bits].
double exponent_entropy(std::span<const float> values) {
  std::map<std::uint32_t, double> counts;
  for (const float v : values) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    ++counts[bits == 0 ? 256 : bits >> 23 & 0xFF];
  }
  double bits = 0;
  for (const auto& [exponent, count] : counts)
    bits -= count * std::log2(count / static_cast<double>(values.size()));
  return bits;
}

void require_wire(const Compressor& codec, const Bytes& payload, std::size_t count,
                  const std::string& words) {
  INFO(words);
  const auto message = refusal(Kind::wire, [&] { decode(codec, payload, count); });
  INFO(message);
  REQUIRE(contains(message, words));
}

/// A payload of one block of bf16 with these fields.
Bytes block_of(unsigned form, unsigned top, unsigned width, const Bytes& container,
               const std::vector<unsigned>& then) {
  Bytes payload(5);
  payload[0] = static_cast<std::byte>(form);
  store(&payload[1], static_cast<std::uint16_t>(2 + container.size() + then.size()));
  payload[3] = static_cast<std::byte>(top);
  payload[4] = static_cast<std::byte>(width);
  payload.insert(payload.end(), container.begin(), container.end());
  for (const unsigned byte : then) payload.push_back(static_cast<std::byte>(byte));
  return payload;
}

Bytes container_of(const std::vector<LevelCode>& codes, const std::vector<unsigned>& in_states) {
  std::array<std::byte, kRansHeldBytes> held{};
  for (std::size_t i = 0; i < in_states.size(); ++i) held[i] = static_cast<std::byte>(in_states[i]);
  const RansModel model = rans_narrow_model(count_indices(codes, kMaxLevels));
  Bytes bytes(rans_max_bytes(codes.size(), model.symbols));
  bytes.resize(rans_write_indices(model, codes, held, bytes));
  return bytes;
}

const std::vector<std::size_t> kSizes = {0,    1,    31,   32,   33,    63,    64,   65,
                                         1000, 8191, 8192, 8193, 16384, 16385, 24575};

}  // namespace

TEST_CASE("planes hold every bfloat16 exactly", "[lossless]") {
  std::vector<std::uint16_t> bfloats(65536);
  std::iota(bfloats.begin(), bfloats.end(), std::uint16_t{0});
  std::erase_if(bfloats, [](std::uint16_t bits) { return (bits & 0x7F80) == 0x7F80; });
  std::vector<float> expected;
  for (const std::uint32_t bits : bfloats) expected.push_back(std::bit_cast<float>(bits << 16));
  on_every_target([&] {
    for (const std::size_t less : {0u, 1u, 3u, 7u, 9u}) {
      const std::size_t count = bfloats.size() - less;
      std::vector<std::uint8_t> exponents(count);
      Bytes upper(count);
      split_bfloats(std::as_bytes(std::span(bfloats).first(count)), exponents.data(), upper.data());
      bool split = true;
      for (std::size_t i = 0; i < count; ++i) split &= exponents[i] == (bfloats[i] >> 7 & 0xFF);
      REQUIRE(split);
      std::vector<float> sum(count, -0.0f);
      add_bfloat_planes(exponents.data(), upper.data(), 1.0f, sum);
      REQUIRE(same_bits(sum, std::span(expected).first(count)));
    }
  });
}

TEST_CASE("planes hold floats exactly and add them scaled", "[lossless]") {
  for (const std::size_t count : {1u, 7u, 8u, 16u, 33u, 2555u}) {
    for (const auto& [name, values] : float_cases(count)) {
      INFO(name << ", " << count);
      on_every_target([&, &values = values] {
        std::vector<std::uint8_t> exponents(count);
        Bytes upper(count), lower(2 * count + 1);
        std::byte* const odd = lower.data() + 1;
        split_floats(values, exponents.data(), upper.data(), odd);
        std::vector<float> sum(count, -0.0f), scaled(count, 0.25f), expected(count, 0.25f);
        add_float_planes(exponents.data(), upper.data(), odd, 1.0f, sum);
        REQUIRE(same_bits(sum, values));
        add_float_planes(exponents.data(), upper.data(), odd, 0.3f, scaled);
        for (std::size_t i = 0; i < count; ++i) expected[i] += 0.3f * values[i];
        REQUIRE(same_bits(scaled, expected));
      });
    }
  }
}

TEST_CASE("codes of exponents: the run downwards, and the escape for all others", "[lossless]") {
  std::vector<std::uint8_t> exponents(256);
  std::iota(exponents.begin(), exponents.end(), std::uint8_t{0});
  for (const ExponentCodes code : {ExponentCodes{.top = 120, .first = 0, .escape = 15},
                                   ExponentCodes{.top = 120, .first = 1, .escape = 15},
                                   ExponentCodes{.top = 254, .first = 1, .escape = 2},
                                   ExponentCodes{.top = 4, .first = 0, .escape = 5},
                                   ExponentCodes{.top = 0, .first = 1, .escape = 1}}) {
    on_every_target([&] {
      std::vector<LevelCode> codes(exponents.size());
      codes_of_exponents(code, exponents, codes);
      std::vector<std::uint8_t> back(exponents.size());
      exponents_of_codes(code, codes, back);
      const int width = code.escape - code.first;
      for (int e = 0; e < 256; ++e) {
        INFO("exponent " << e << " of " << width << " from " << int{code.top});
        const auto i = static_cast<std::size_t>(e);
        const bool inside = e <= code.top && e > code.top - width;
        REQUIRE(codes[i] == (inside ? code.first + code.top - e : code.escape));
        if (inside) REQUIRE(back[i] == e);
      }
    });
  }
}

TEST_CASE("the exponents that most values have get the codes, rare ones at the ends none",
          "[lossless]") {
  ExponentCounts counts{};
  const auto chosen = [&](std::size_t values, std::uint8_t first) {
    const ExponentCodes code = choose_codes(counts, values, first);
    return std::array<int, 3>{code.top, code.first, code.escape};
  };
  CHECK(chosen(8192, 1) == std::array{0, 1, 1});  // all values are zeros
  counts[100] = 4096;
  counts[60] = 4000;
  CHECK(chosen(8192, 0) == std::array{100, 0, 1});
  counts[99] = 8;  // 8 of 8192 is one in 1024
  counts[101] = 7;
  CHECK(chosen(8192, 0) == std::array{100, 0, 2});
  counts[86] = 50;
  CHECK(chosen(8192, 0) == std::array{100, 0, 15});
  CHECK(chosen(8192, 1) == std::array{100, 1, 3});  // 86 is the fifteenth, and rare ones are cut
  counts = {};
  counts[0] = counts[1] = counts[2] = 100;
  CHECK(chosen(300, 0) == std::array{2, 0, 3});
  counts = {};
  counts[254] = 9;
  CHECK(chosen(9, 0) == std::array{254, 0, 1});
}

TEST_CASE("values come back bit for bit, on every target from the same bytes", "[lossless]") {
  for (const std::string name : {"none", "bf16"}) {
    const auto codec = lossless(name);
    for (const std::size_t count : kSizes) {
      for (const auto& [kind, values] : float_cases(count)) {
        INFO(name << ", " << kind << ", " << count);
        const auto expected = name == "none" ? values : sent_plainly(name, values);
        Bytes first;
        on_every_target([&, &values = values] {
          const Bytes payload = encode(*codec, values);
          if (first.empty()) first = payload;
          REQUIRE(payload == first);
          REQUIRE(payload.size() <= codec->max_payload_bytes(count));
          REQUIRE(same_bits(exact(*codec, payload, count), expected));
        });
      }
    }
  }
}

TEST_CASE("a message is at most a byte in a block longer than without coding", "[lossless]") {
  for (const std::string name : {"none", "bf16"}) {
    const auto codec = lossless(name), plain = make_compressor(name);
    for (const std::size_t count : kSizes) {
      const std::size_t blocks = (count + 8191) / 8192;
      CHECK(codec->max_payload_bytes(count) == plain->max_payload_bytes(count) + blocks);
    }
    // All 255 exponents equally often cannot be coded shorter.
    const auto values = float_cases(16384)[8].second;
    CHECK(encode(*codec, values).size() == codec->max_payload_bytes(values.size()));
  }
}

TEST_CASE("messages are near the entropy of exponents", "[lossless]") {
  constexpr std::size_t kCount = 16 * 8192;
  for (const auto& [kind, values] : float_cases(kCount)) {
    // Many exponents far from the usual ones cost 8 bits each; -0 has such an exponent.
    if (kind == "any" || kind == "exponents in turn" || kind.ends_with("from everywhere") ||
        kind == "two exponents far apart" || kind == "zeros of both signs among others")
      continue;
    for (const std::string name : {"none", "bf16"}) {
      INFO(name << ", " << kind);
      const auto sent = sent_plainly(name, values);
      // Signs and mantissas of all values but frequent +0.
      const auto zeros = static_cast<double>(std::ranges::count_if(
          sent, [](float v) { return std::bit_cast<std::uint32_t>(v) == 0; }));
      const double kept = kCount - (zeros * 256 >= kCount ? zeros : 0);
      const double least = exponent_entropy(sent) + kept * (name == "none" ? 24 : 8);
      const auto bits = 8.0 * static_cast<double>(encode(*lossless(name), values).size());
      CHECK(bits >= least * 0.999);
      CHECK(bits <= least + 0.09 * kCount);
    }
  }
}

TEST_CASE("normal values take about 10.6 and 26.6 bits", "[lossless]") {
  // The entropy of the exponent of a normal value is 2.57 bits where the deviation is a power of
  // two: from P(2^k <= |x| < 2^(k+1)) = erf(2^(k+1) / sqrt 2) - erf(2^k / sqrt 2).
  double entropy = 0;
  for (int k = -60; k < 4; ++k) {
    const double p =
        std::erf(std::ldexp(2, k) / std::sqrt(2)) - std::erf(std::ldexp(1, k) / std::sqrt(2));
    if (p > 0) entropy -= p * std::log2(p);
  }
  constexpr std::size_t kCount = 1 << 18;
  const auto values = gaussian(kCount, 0x1p-9);
  for (const auto& [name, rest] : {std::pair("none", 24.0), std::pair("bf16", 8.0)}) {
    const double bits = 8.0 * static_cast<double>(encode(*lossless(name), values).size()) / kCount;
    INFO(name << ": " << bits << " bits, entropy " << entropy);
    CHECK(bits > rest + entropy - 0.01);
    CHECK(bits < rest + entropy + 0.09);
  }
}

TEST_CASE("with error feedback a message leaves the residual of bf16", "[lossless]") {
  const auto values = gaussian(20000, 1e-2);
  const auto codec = lossless("bf16"), plain = make_compressor("bf16");
  auto residual = gaussian(values.size(), 1e-4, 5), expected = residual;
  Workspace workspace;
  Bytes coded(codec->max_payload_bytes(values.size())), usual(2 * values.size());
  coded.resize(codec->encode_with_feedback(values, {}, workspace, residual, coded));
  (void)plain->encode_with_feedback(values, {}, workspace, expected, usual);
  CHECK(same_bits(residual, expected));
  CHECK(same_bits(decode(*codec, coded, values.size()), decode(*plain, usual, values.size())));
}

TEST_CASE("blocks that break one rule each are refused", "[lossless]") {
  const auto codec = lossless("bf16");
  constexpr std::size_t kCount = 50;
  const Bytes one_code(1);  // a model of the index 0 alone
  const std::vector<unsigned> plane(kCount, 2);
  const auto with = [](std::vector<unsigned> bytes, std::size_t more, unsigned byte) {
    bytes.insert(bytes.end(), more, byte);
    return bytes;
  };
  const Bytes good = block_of(1, 125, 1, one_code, plane);
  // Exponent 125 and mantissa byte 2, which is the lowest mantissa bit and no sign.
  CHECK(decode(*codec, good, kCount) == std::vector<float>(kCount, float_of(0, 125, 1 << 16)));
  const auto changed = [&](std::size_t at, unsigned byte) {
    Bytes bytes = good;
    bytes[at] = static_cast<std::byte>(byte);
    return bytes;
  };
  require_wire(*codec, {}, kCount, "block of values 0 to 49, found 0 bytes");
  require_wire(*codec, changed(0, 3), kCount, "no whole block");
  require_wire(*codec, Bytes(good.begin(), good.end() - 1), kCount, "no whole block");
  require_wire(*codec, {std::byte{1}, std::byte{0}}, kCount, "no whole block");
  require_wire(*codec, {std::byte{0}, std::byte{0}}, kCount, "no whole block");
  require_wire(*codec, {std::byte{1}, std::byte{1}, std::byte{0}, std::byte{9}}, kCount,
               "2 bytes of exponents");
  require_wire(*codec, changed(3, 255), kCount, "of 0 to 254");
  require_wire(*codec, changed(4, 16), kCount, "at most 15 exponents");
  require_wire(*codec, block_of(2, 125, 15, one_code, plane), kCount, "at most 14 exponents");
  require_wire(*codec, block_of(1, 3, 5, one_code, plane), kCount, "found 5 from 3");
  Bytes longer = good;
  longer.push_back(std::byte{0});
  require_wire(*codec, longer, kCount, "found 1 more bytes");
  require_wire(*codec, block_of(1, 125, 1, one_code, with(plane, 1, 7)), kCount,
               "0 exponents of escapes at a block's end, found 1");
  require_wire(*codec, block_of(1, 125, 1, one_code, with({}, 49, 2)), kCount,
               "50 bytes of upper mantissas in a block, found 49");
  require_wire(*lossless("none"), block_of(1, 125, 1, one_code, plane), kCount,
               "100 bytes of lower mantissas in a block, found 0");
  // All codes are the escape.
  CHECK(decode(*codec, block_of(1, 0, 0, one_code, with(plane, kCount, 125)), kCount) ==
        decode(*codec, good, kCount));
  require_wire(*codec, block_of(1, 0, 0, one_code, with(plane, 49, 125)), kCount,
               "50 exponents of escapes at a block's end, found 49");
  require_wire(*codec, block_of(1, 0, 0, one_code, with(plane, kCount, 255)), kCount,
               "found the exponent 255 at index 0");
  // The code 2 where there are 0, the exponent, and 1, the escape.
  require_wire(*codec, block_of(1, 125, 1, {std::byte{4}, std::byte{0}, std::byte{0}}, plane),
               kCount, "at most 2 indices");
  // Values as bf16 sends them; the first is infinite.
  Bytes plain(1 + 2 * kCount);
  plain[2] = std::byte{0x7F};
  CHECK(decode(*codec, plain, kCount)[0] == 0x1p127f);
  plain[1] = std::byte{0x80};
  require_wire(*codec, plain, kCount, "finite");
}

TEST_CASE("states hold the first mantissas, and zeros where there are no more", "[lossless]") {
  const auto codec = lossless("bf16");
  std::vector<LevelCode> codes(100, 0);  // +0
  codes[40] = codes[41] = 1;
  const auto decoded = decode(*codec, block_of(2, 127, 1, container_of(codes, {0, 3}), {}), 100);
  std::vector<float> expected(100, 0.0f);
  expected[40] = 1;
  expected[41] = -(1 + 0x1p-7f);
  CHECK(decoded == expected);
  require_wire(*codec, block_of(2, 127, 1, container_of(codes, {0, 3, 1}), {}), 100,
               "hold 2 bytes and zeros, found 0x01");
  require_wire(*codec, block_of(2, 127, 1, container_of(codes, {0, 3}), {0}), 100,
               "0 exponents of escapes");
}

TEST_CASE("values that are not finite are refused by their index in the whole input",
          "[lossless]") {
  for (const std::string name : {"none", "bf16"}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      for (const std::size_t at : {0u, 8191u, 8192u, 19999u}) {
        auto values = gaussian(20000);
        values[at] = bad;
        INFO(name << ", " << at);
        const auto message = refusal(Kind::diverged, [&] { encode(*lossless(name), values); });
        CHECK(message == refusal(Kind::diverged, [&] { encode(*make_compressor(name), values); }));
        CHECK(contains(message, "index " + std::to_string(at)));
      }
    }
  }
  auto values = gaussian(20000);
  values[9000] = std::numeric_limits<float>::max();  // rounds to infinity
  CHECK(
      contains(refusal(Kind::diverged, [&] { encode(*lossless("bf16"), values); }), "index 9000"));
  CHECK(exact(*lossless("none"), encode(*lossless("none"), values), values.size()) == values);
}

TEST_CASE("lossless coding is of none and bf16, and known by its version", "[lossless]") {
  for (const std::string name : {"none", "bf16"}) {
    const auto codec = lossless(name), plain = make_compressor(name);
    CHECK(codec->id() == plain->id());
    CHECK(codec->format_version() == 2);
    CHECK(plain->format_version() == 1);
    CHECK(codec->properties().lossless == plain->properties().lossless);
    CHECK_FALSE(codec->properties().is_float32());
    CHECK(plain->properties().is_float32() == (name == "none"));
    CHECK(codec->variance_bound(100) == plain->variance_bound(100));
    CHECK(contains(why_not(*CompressorRow::all().at(name), {.coding = Coding::rans}),
                   "set it to \"lossless\""));
  }
  for (const Entry<CompressorRow> row : CompressorRow::all()) {
    const std::string why = why_not(*row, {.coding = Coding::lossless});
    INFO(row->name << ": " << why);
    CHECK(why.empty() == row->codes_floats);
    if (!why.empty())
      CHECK(contains(why, "expected the compressor bf16 or none for compressor.coding"));
  }
}
