// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/rans.hpp"

#include <numeric>
#include <vector>

#include "codec/entropy/bit_stream.hpp"
#include "codec/entropy/elias.hpp"
#include "codec/entropy/rans_kernels.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/code_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

std::vector<std::byte> write(const std::vector<LevelCode>& codes) {
  const RansModel model = rans_model(count_indices(codes, kMaxLevels));
  std::vector<std::byte> bytes(rans_max_bytes(codes.size(), model.symbols));
  bytes.resize(rans_write(model, codes, bytes));
  bytes.shrink_to_fit();
  return bytes;
}

// Fields of a container by hand: value and width.
using Fields = std::vector<std::pair<std::uint64_t, int>>;

std::vector<std::byte> bytes_of(const Fields& fields, const std::vector<unsigned>& then = {}) {
  std::vector<std::byte> bytes(64);
  BitWriter writer(bytes);
  for (const auto& [value, width] : fields) writer.put(value, width);
  bytes.resize(writer.finish());
  for (const unsigned byte : then) bytes.push_back(static_cast<std::byte>(byte));
  return bytes;
}

void require_refused(const std::vector<std::byte>& bytes, std::size_t count, std::size_t symbols,
                     const std::string& words) {
  std::vector<LevelCode> codes(count);
  try {
    rans_read(bytes, symbols, codes);
    FAIL("not refused: " << words);
  } catch (const Error& error) {
    REQUIRE(error.kind() == Kind::wire);
    INFO(error.what());
    REQUIRE(std::string(error.what()).find(words) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("models have the right sum and no zero where an index occurs", "[rans]") {
  const RandomStream random({9, 0, 0, 0});
  std::uint32_t draw = 0;
  for (int round = 0; round < 3000; ++round) {
    IndexCounts counts{};
    const std::size_t symbols = 1 + random.bits(draw++) % kMaxLevels;
    for (std::size_t i = 0; i < symbols; ++i) {
      const std::uint32_t word = random.bits(draw++);
      counts[i] = word % 3 == 0 ? 0 : word >> word % 29;
    }
    counts[symbols - 1] += 1;
    const RansModel model = rans_model(counts);
    REQUIRE(model.symbols == symbols);
    REQUIRE((symbols <= 16 || model.precision == 12));
    REQUIRE(std::accumulate(model.frequency.begin(), model.frequency.end(), 0) ==
            1 << model.precision);
    for (std::size_t i = 0; i < kMaxLevels; ++i) {
      REQUIRE((model.frequency[i] > 0) == (counts[i] > 0));
    }
  }
}

TEST_CASE("no frequency of a model can be moved to save bits", "[rans]") {
  for (const unsigned top : {1u, 3u, 7u, 15u}) {
    for (const auto& [name, codes] : code_cases(5000, top)) {
      const IndexCounts counts = count_indices(codes, top + 1);
      const RansModel model = rans_model(counts);
      const auto gain = [&](std::size_t i, double by) {
        const double f = model.frequency[i];
        return static_cast<double>(counts[i]) * std::log2((f + by) / f);
      };
      for (std::size_t from = 0; from <= top; ++from) {
        for (std::size_t to = 0; to <= top; ++to) {
          if (from == to || model.frequency[from] < 2 || counts[to] == 0) continue;
          INFO(name << ", from " << from << " to " << to);
          // The greedy rule looks half a unit ahead.
          REQUIRE(gain(to, 1) + gain(from, -1) < 2.0);
        }
      }
    }
  }
}

TEST_CASE("the vector encoder's quotients are exact for every frequency and state", "[rans]") {
  std::vector<std::uint16_t> frequencies(2);
  for (std::uint32_t f = 1; f < 256; ++f) {
    frequencies = {static_cast<std::uint16_t>(256 - f), static_cast<std::uint16_t>(f)};
    const RansEncoderTables t = rans_encoder_tables(frequencies, 8);
    REQUIRE(t.limit[1] == f << 16);
    bool exact = true;
    for (std::uint64_t x = 1u << 8; x < std::uint64_t{f} << 16; ++x) {
      const std::uint64_t q = x * t.reciprocal32[1] >> 32;
      exact = exact && x + t.bias[1] + q * t.complement[1] == (x / f << 8) + x % f + (256 - f);
      exact = exact && x * t.reciprocal40[1] >> 40 == x / f;
    }
    REQUIRE(exact);
  }
}

TEST_CASE("rANS bytes do not depend on the target, and decode on every one", "[rans]") {
  for (const unsigned top : {1u, 2u, 3u, 7u, 15u, 16u, 31u, 63u, 127u}) {
    for (const std::size_t count : {1u,  2u,  15u, 16u, 17u, 31u, 32u,  33u,  47u,  48u,
                                    63u, 64u, 65u, 95u, 96u, 97u, 511u, 512u, 513u, 5000u}) {
      for (const auto& [name, codes] : code_cases(count, top)) {
        std::vector<std::byte> first;
        for_each_simd_target([&, &name = name, &codes = codes] {
          INFO(name << ", " << count << " codes up to " << top);
          const auto bytes = write(codes);
          if (first.empty()) first = bytes;
          REQUIRE(bytes == first);
          std::vector<LevelCode> decoded(count);
          REQUIRE(rans_read(bytes, top + 1, decoded) == bytes.size());
          REQUIRE(decoded == codes);
          // Bytes of the next bucket after it change nothing.
          auto longer = bytes;
          longer.resize(bytes.size() + 100, std::byte{0x5A});
          REQUIRE(rans_read(longer, top + 1, decoded) == bytes.size());
          REQUIRE(decoded == codes);
        });
      }
    }
  }
}

TEST_CASE("containers that break one rule each are refused", "[rans]") {
  // Two codes, indices 0 and 1 of frequencies 128 each; states of 17 bits (spare 7).
  const auto start = [](std::uint64_t low) {
    return std::pair<std::uint64_t, int>{7ull << 16 | low, 19};
  };
  const Fields head = {{0, 3}, {1, 4}, {128, 8}};
  const auto with = [&](const Fields& more) {
    Fields all = head;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  // State 2^16: index 0, then 128 * 2^8 = 2^15 takes the byte 5: 2^23 + 5.
  require_refused(bytes_of(with({start(0), start(0)}), {5, 5}), 2, 2, "ends below");
  // State 2^17: index 0 and 2^16 left. Spare 6, no byte.
  const std::pair<std::uint64_t, int> good{6ull << 17, 20};
  std::vector<LevelCode> codes(2);
  REQUIRE(rans_read(bytes_of(with({good, good})), 2, codes) == bytes_of(with({good, good})).size());
  REQUIRE(codes == std::vector<LevelCode>{0, 0});
  // Signs in a state when there is no nonzero code: 2^17 + 1 leaves 2^16 + 1.
  require_refused(bytes_of(with({{6ull << 17 | 1, 20}, good})), 2, 2, "signs");
  require_refused(bytes_of(with({start(0), start(0)})), 2, 2, "more than");
  require_refused(bytes_of(head), 2, 2, "more bits");
  require_refused(bytes_of({{0, 3}, {2, 4}, {128, 8}, {0, 8}}), 2, 2, "at most 2 indices");
  require_refused(bytes_of({{0, 3}, {2, 4}, {128, 8}, {128, 8}}), 2, 3, "sum below 256");
  require_refused(bytes_of({{1, 3}, {1, 7}, {delta_code(4097).bits, delta_code(4097).length}}), 2,
                  2, "sum below 4096");
  require_refused(bytes_of({{1, 3}, {1, 7}, {0, 60}}), 2, 2, "delta code");
  // A single index 1: only signs, and zero bits after them.
  REQUIRE(rans_read(bytes_of({{0, 3}, {1, 4}, {0, 8}}, {2}), 2, codes) == 3);
  REQUIRE(codes == std::vector<LevelCode>{1, 0x81});
  require_refused(bytes_of({{0, 3}, {1, 4}, {0, 8}}, {4}), 2, 2, "signs");
  require_refused(bytes_of({{0, 3}, {1, 4}, {0, 8}}), 2, 2, "bytes of signs");
}
