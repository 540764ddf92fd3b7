// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/sparse/sparse.hpp"
#include "codec/unit/codec_case.hpp"
#include "codec/unit/sparse_case.hpp"
#include "codec/unit/vectors.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;

namespace {

EncodeContext with_density(double density) {
  EncodeContext context;
  context.density = density;
  return context;
}

std::size_t sent(const Bytes& payload) { return head_of(payload).k; }

template <typename... T>
Bytes bytes_of(T... fields) {
  Bytes bytes((sizeof(T) + ... + 0));
  std::byte* at = bytes.data();
  ((store(at, fields), at += sizeof(T)), ...);
  return bytes;
}

using U8 = std::uint8_t;
using U16 = std::uint16_t;
using I16 = std::int16_t;

/// Indices 0 and 9 of 10: gaps 0 and 8, one bit each: remainders 0 0, quotients 1, 00001.
Bytes two_of_ten() { return bytes_of(U8{2}, U8{1}, U8{32}, U8{0}, 1.0f, 2.0f, U8{0x21}); }

/// All of four values, with 3 bits each: 1, 2, 3 and 4 are the magnitudes, of which values 0 ... 3
/// have the indices 3, 0, 1 and 2, and value 1 is negative: the fields 011, 100, 001 and 010.
Bytes four_of_four() {
  // 0x3C00, 0x4000, 0x4200 and 0x4400 are the halves 1, 2, 3 and 4.
  return bytes_of(U8{4}, U8{0}, U8{3}, I16{0}, U16{0x3C00}, U16{0x4000}, U16{0x4200}, U16{0x4400},
                  U8{0b01100011}, U8{0b0100});
}

/// The same with magnitudes between 1 and 16, whose square roots are 1, 2, 3 and 4.
Bytes four_between() {
  return bytes_of(U8{4}, U8{0}, U8{0x43}, I16{0}, U16{0x3C00}, U16{0x4C00}, U8{0b01100011},
                  U8{0b0100});
}

}  // namespace

TEST_CASE("k is the floor of density times count, at least 1", "[sparse]") {
  const auto sent_of = [](double density, std::size_t count) {
    return sent(encode(*make_compressor("topk", {.density = density}), gaussian(count)));
  };
  REQUIRE(sent_of(0.01, 1) == 1);
  REQUIRE(sent_of(0.01, 199) == 1);
  REQUIRE(sent_of(0.01, 200) == 2);
  REQUIRE(sent_of(0.25, 10007) == 2501);
  REQUIRE(sent_of(1.0, 10007) == 10007);
}

TEST_CASE("the step's density overrides the option's", "[sparse]") {
  const auto codec = make_compressor("dgc", {.density = 0.01});
  REQUIRE(sent(encode(*codec, gaussian(1000), with_density(0.25))) == 250);
  REQUIRE(codec->id() == CodecId::dgc);
}

TEST_CASE("densities outside (0, 1], other widths and thresholds are rejected", "[sparse]") {
  for (const double density : {0.0, -0.1, 1.01, std::nan("")}) {
    refusal(Kind::usage, [&] { make_compressor("topk", {.density = density}); });
    refusal(Kind::usage, [&] { make_compressor("threshold", {.density = density}); });
    refusal(Kind::usage,
            [&] { encode(*make_compressor("topk"), gaussian(10), with_density(density)); });
  }
  refusal(Kind::usage, [] { make_compressor("dgc", {.value_bits = 9}); });
  refusal(Kind::usage, [] { make_compressor("topk", {.value_bits = 0}); });
  refusal(Kind::usage, [] { make_compressor("threshold", {.value_bits = 24}); });
  for (const double threshold : {-1.0, std::nan(""), 1e39}) {
    refusal(Kind::usage, [&] { make_compressor("threshold", {.threshold = threshold}); });
  }
}

TEST_CASE("top-k agrees with the reference vectors", "[sparse][vectors]") {
  for_each_vector_file([](const nlohmann::json& vectors) {
    const auto v8 = vectors.at("common").at("v8").get<std::vector<float>>();
    const auto& row = vectors.at("contraction").at("topk_k2");
    for (const int bits : {16, 32}) {  // v8 is exact in 16 bits
      const auto codec = make_compressor("topk", {.density = 0.25, .value_bits = bits});
      const auto out = decode(*codec, encode(*codec, v8), v8.size());
      REQUIRE(out == row.at("kept").get<std::vector<float>>());
      REQUIRE(squared_distance(out, v8) / squared_norm(v8) ==
              Approx(row.at("residual_ratio").get<double>()).epsilon(1e-9));
    }
  });
}

TEST_CASE("a given threshold sends what is above it, and half the values at most", "[sparse]") {
  const auto values = gaussian(10'007);
  for (const float threshold : {0.1f, 0.9f, 2.5f, 10.0f}) {
    const auto codec = make_compressor("threshold", {.threshold = threshold});
    const auto payload = encode(*codec, values);
    const auto above = std::count_if(values.begin(), values.end(),
                                     [&](float v) { return std::abs(v) > threshold; });
    REQUIRE(sent(payload) == std::min<std::size_t>(static_cast<std::size_t>(above), 5004));
    const auto out = decode(*codec, payload, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      REQUIRE((out[i] == values[i] || out[i] == 0));
      if (sent(payload) < 5004) REQUIRE((out[i] != 0) == (std::abs(values[i]) > threshold));
    }
  }
}

TEST_CASE("a threshold from the density sends about that many", "[sparse]") {
  const auto values = gaussian(300'000);
  for (const double density : {0.001, 0.01, 0.1}) {
    const auto count = static_cast<double>(
        sent(encode(*make_compressor("threshold", {.density = density}), values)));
    REQUIRE(count >= 300'000 * density);
    REQUIRE(count <= 300'000 * density * 1.05);
  }
  const std::vector<float> zeros(100);
  REQUIRE(sent(encode(*make_compressor("threshold"), zeros)) == 0);
  REQUIRE(decode(*make_compressor("threshold"), encode(*make_compressor("threshold"), zeros),
                 100) == zeros);
}

TEST_CASE("zero_sent zeroes the sent indices and no other", "[sparse]") {
  const auto values = gaussian(1000);
  for (const int bits : {1, 2, 5, 8, 16, 32}) {
    for (const double density : {0.1, 0.7, 1.0}) {
      const auto codec = make_compressor("dgc", {.density = density, .value_bits = bits});
      const auto payload = encode(*codec, values);
      const auto out = decode(*codec, payload, values.size());
      std::vector<float> memory(1000, 3.0f);
      zero_sent(payload, memory);
      for (std::size_t i = 0; i < 1000; ++i) REQUIRE(memory[i] == (out[i] != 0 ? 0.0f : 3.0f));
    }
  }
  std::vector<float> none;
  REQUIRE_NOTHROW(zero_sent({}, none));
}

TEST_CASE("a payload written by hand is read as FORMAT.md says", "[sparse]") {
  const auto codec = make_compressor("topk");
  const std::vector<float> expected{1, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  REQUIRE(decode(*codec, two_of_ten(), 10) == expected);
  // 1 2^-3 and 16384 2^-3, in 16 bits.
  const Bytes halves =
      bytes_of(U8{2}, U8{1}, U8{16}, U8{0}, I16{-3}, U16{0x3C00}, U16{0x7400}, U8{0x21});
  REQUIRE(decode(*codec, halves, 10)[0] == 0.125f);
  REQUIRE(decode(*codec, halves, 10)[9] == 2048.0f);
  // Three of four: index 1 is the one that is not sent.
  const Bytes absent = bytes_of(U8{3}, U8{0}, U8{32}, 1.0f, 2.0f, 3.0f, U8{2});
  REQUIRE(decode(*codec, absent, 4) == std::vector<float>{1, 0, 2, 3});
  REQUIRE(decode(*codec, bytes_of(U8{2}, U8{0}, U8{32}, 1.0f, 2.0f), 2) ==
          std::vector<float>{1, 2});
  REQUIRE(decode(*codec, bytes_of(U8{0}, U8{0}, U8{32}), 2) == std::vector<float>{0, 0});
}

TEST_CASE("payloads of few bits that were written by hand are read as FORMAT.md says", "[sparse]") {
  const auto codec = make_compressor("topk");
  REQUIRE(decode(*codec, four_of_four(), 4) == std::vector<float>{4, -1, 2, 3});
  REQUIRE(decode(*codec, four_between(), 4) == std::vector<float>{16, -1, 4, 9});
  // One bit: the signs +, -, + of 1.5 2^-2.
  const Bytes signs = bytes_of(U8{3}, U8{0}, U8{1}, I16{-2}, U16{0x3E00}, U8{0b010});
  REQUIRE(decode(*codec, signs, 3) == std::vector<float>{0.375f, -0.375f, 0.375f});
}

TEST_CASE("a number of entries has seven bits in a byte", "[sparse]") {
  for (const std::size_t k : {1u, 127u, 128u, 16383u, 16384u, 20000u}) {
    const auto codec = make_compressor("topk", {.density = 1});
    const Bytes payload = encode(*codec, gaussian(k));
    REQUIRE(sent(payload) == k);
    REQUIRE(head_of(payload).bytes == (k < 128 ? 3u : k < 16384 ? 4u : 5u));
    REQUIRE(payload.size() == head_of(payload).bytes + 4 * k);
    REQUIRE(sparse_head_bytes(k) == head_of(payload).bytes);
  }
}

TEST_CASE("malformed sparse payloads are rejected, and the error names the defect", "[sparse]") {
  const auto codec = make_compressor("topk");
  const auto message = [&](const Bytes& payload, std::size_t count) {
    std::vector<float> memory(count);
    refusal(Kind::wire, [&] { zero_sent(payload, memory); });
    return refusal(Kind::wire, [&] { decode(*codec, payload, count); });
  };
  const auto changed = [](Bytes payload, std::size_t at, int byte) {
    payload.at(at) = static_cast<std::byte>(byte);
    return payload;
  };
  const Bytes two = two_of_ten();
  REQUIRE(contains(message({}, 10), "the payload's end"));
  REQUIRE(contains(message(Bytes(2), 10), "the payload's end"));
  REQUIRE(contains(message(two, 1), "at most 1 entries, found 2"));
  REQUIRE(contains(message(bytes_of(U8{0xFF}, U8{0xFF}, U8{0xFF}, U8{0xFF}, U8{0x0F}), 10),
                   "4294967295"));
  REQUIRE(contains(message(Bytes(9, std::byte{0x80}), 10), "shortest form"));
  REQUIRE(contains(message(bytes_of(U8{0x82}, U8{0}, U8{1}, U8{32}), 10), "shortest form"));
  REQUIRE(contains(message(changed(two, 1, 32), 10), "Rice parameter of at most 31, found 32"));
  for (const int form : {0, 5, 8, 9, 15, 17, 31, 33, 0x41, 0x42, 0x50, 0x60, 0x84, 0xFF})
    REQUIRE(contains(message(changed(two, 2, form), 10), "found the form"));
  REQUIRE(contains(message(changed(two, 0, 3), 10), "at least 16 bytes for 3 entries, found 13"));
  REQUIRE(contains(message(two, 9), "indices below 9, found 9"));
  REQUIRE(contains(message(changed(two, 3, 4), 10), "zero bits after 2 remainders"));
  REQUIRE(contains(message(changed(two, 12, 0x23), 10), "2 gaps, found 3"));
  REQUIRE(contains(message(bytes_of(U8{1}, U8{0}, U8{32}, std::nanf(""), U8{1}), 10), "finite"));
  refusal(Kind::wire, [&] { decode(*codec, bytes_of(U8{0}, U8{0}, U8{32}), 0); });
}

TEST_CASE("malformed payloads of few bits are rejected, and the error names the defect",
          "[sparse]") {
  const auto codec = make_compressor("topk");
  const auto changed = [&](Bytes payload, std::size_t at, auto field) {
    store(payload.data() + at, field);
    return refusal(Kind::wire, [&] { decode(*codec, payload, 4); });
  };
  // After the head of 3 bytes: the exponent, the magnitudes from byte 5, the fields at the end.
  REQUIRE(contains(changed(four_of_four(), 3, I16{114}), "exponent from -163 to 113, found 114"));
  REQUIRE(contains(changed(four_of_four(), 11, U16{0x7800}), "below 2^15"));
  REQUIRE(contains(changed(four_of_four(), 11, U16{0x7C00}), "below 2^15"));
  REQUIRE(contains(changed(four_of_four(), 11, U16{0x7E00}), "below 2^15"));
  REQUIRE(contains(changed(four_of_four(), 5, U16{0xBC00}), "positive and do not descend"));
  REQUIRE(contains(changed(four_of_four(), 9, U16{0x3F00}), "0x3f00 after 0x4000"));
  REQUIRE(contains(changed(four_of_four(), 14, U8{0b10100}), "zero bits after 4 values of 3 bits"));
  REQUIRE(contains(changed(four_between(), 7, U16{0x3BFF}), "0x3bff after 0x3c00"));
  REQUIRE(contains(changed(four_between(), 7, U16{0x8000}), "0x8000 after 0x3c00"));
  REQUIRE(contains(changed(four_between(), 10, U8{0x80}), "zero bits after 4 values"));
  REQUIRE(contains(changed(four_of_four(), 2, U8{0x43}), "gaps"));  // four bytes are left
  REQUIRE(contains(changed(four_between(), 2, U8{3}), "at least 15 bytes for 4 entries, found 11"));
}
