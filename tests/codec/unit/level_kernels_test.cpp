// SPDX-License-Identifier: Apache-2.0
// The vector kernels against the plain oracle, on every instruction set of this machine.

#include "codec/levels/level_kernels.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/fixed_coding.hpp"
#include "support/catch.hpp"
#include "support/level_cases.hpp"
#include "support/simd_targets.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::test;

namespace {

const RandomKey kKey{11, 22, 33, 44};

// Values and norms with every kind of r: zero, levels themselves, their neighbours, 1.
std::vector<float> level_neighbours(const Levels& levels) {
  std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0x1p-30f};
  for (const double level : levels) {
    const auto l = static_cast<float>(level);
    values.insert(values.end(), {l, -l, std::nextafter(l, 0.0f), std::nextafter(l, 2.0f) * 0.75f});
  }
  return values;
}

void check_quantize_with(const Strata* strata, const Levels& levels, bool uniform,
                         const std::vector<float>& values, float norm) {
  const LevelTable table(levels, uniform);
  const auto expected = oracle_indices(values, norm, levels, uniform, kKey, 5, strata);
  std::vector<LevelCode> codes(values.size());
  quantize(values, inverse_of(table, norm), table, RandomStream(kKey, 0, strata), 5, codes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO("value " << values[i] << " at " << i << ", " << table.count << " levels");
    REQUIRE((codes[i] & 0x7Fu) == expected[i]);
    REQUIRE((codes[i] >= kSignCode) == (expected[i] > 0 && std::signbit(values[i])));
  }
}

void check_quantize(const Levels& levels, bool uniform, const std::vector<float>& values,
                    float norm) {
  for (const Strata* const strata : {strata_of(0, 1), strata_of(1, 2), strata_of(4, 5)})
    check_quantize_with(strata, levels, uniform, values, norm);
}

}  // namespace

TEST_CASE("quantize equals the oracle on every target", "[level_kernels]") {
  for_each_simd_target([] {
    for (int n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 63, 127}) {
      for (const std::size_t count : {0u, 1u, 3u, 4u, 15u, 16u, 17u, 1000u}) {
        const auto values = gaussian_values(count, 3);
        const float norm = 4.5f;
        check_quantize(uniform_levels(n), true, values, norm);
        check_quantize(sinh_levels(n, 4.0 / n), false, values, norm);
        check_quantize(exponential_levels(n, n < 20 ? 0.5 : 0.95), false, values, norm);
      }
    }
  });
}

TEST_CASE("values at and next to the levels round like the oracle", "[level_kernels]") {
  for_each_simd_target([] {
    for (int n : {1, 3, 7, 15, 31, 63, 127}) {
      for (const Levels& levels : {sinh_levels(n, 3.0 / n), exponential_levels(n, 0.8),
                                   sinh_levels(n, 0.0), exponential_levels(n, 0.995)}) {
        check_quantize(levels, false, level_neighbours(levels), 1.0f);
      }
      check_quantize(uniform_levels(n), true, level_neighbours(uniform_levels(n)), 1.0f);
    }
  });
}

TEST_CASE("tables with keys of cells round like the oracle", "[level_kernels]") {
  for_each_simd_target([] {
    for (int n : {2, 3, 5, 6, 7}) {
      for (const double theta : {0.05, 0.25, 0.64, 0.85, 1.2, 2.0, 3.0})
        check_quantize(sinh_levels(n, theta), false, level_neighbours(sinh_levels(n, theta)), 1.0f);
      for (const double mu : {1.0, 15.0, 255.0, 1e4})
        check_quantize(mulaw_levels(n, mu), false, level_neighbours(mulaw_levels(n, mu)), 1.0f);
    }
  });
}

TEST_CASE("keys of cells begin at the levels", "[level_table]") {
  const auto check = [](const Levels& levels) {
    const LevelTable table(levels, false);
    const auto found = table.find_cell_keys();
    REQUIRE(found);
    const auto& keys = *found;
    const auto key_of = [&](float r) {
      return (std::bit_cast<std::uint32_t>(r + keys.shifted) >> 16) * keys.factor >> 16;
    };
    const auto n = static_cast<std::uint32_t>(table.count);
    for (std::uint32_t j = 0; j < n; ++j) REQUIRE(key_of(table.level[j]) == keys.first + j);
    REQUIRE((key_of(1) == keys.first + n - 1 || key_of(1) == keys.first + n));
  };
  for (int n : {2, 3, 4, 5, 6, 7}) {
    for (const double theta : {0.05, 0.25, 0.64, 0.85, 1.2, 2.0, 3.0}) check(sinh_levels(n, theta));
    for (const double mu : {1.0, 15.0, 255.0, 1e4}) check(mulaw_levels(n, mu));
  }
  // Even on no such scale.
  CHECK_FALSE(LevelTable(Levels{0, 0.001, 0.002, 0.3, 0.8, 0.8001, 1}, false).find_cell_keys());
}

TEST_CASE("r = 1 always reaches the last level", "[level_kernels]") {
  const std::vector<float> top(4096, 0.7f);
  for (int n : {1, 7, 15, 127}) {
    for (const bool uniform : {false, true}) {
      const LevelTable table(uniform ? uniform_levels(n) : sinh_levels(n, 0.1), uniform);
      std::vector<LevelCode> codes(top.size());
      quantize(top, inverse_of(table, 0.7f), table, RandomStream(kKey), 0, codes);
      for (const LevelCode code : codes) REQUIRE(code == n);
    }
  }
}

TEST_CASE("sums of squares have the same bits on every target", "[level_kernels]") {
  for_each_simd_target([] {
    for (const std::size_t count : law_counts()) {
      for (const auto& [name, values] : special_values(count)) {
        INFO(name << " " << count);
        REQUIRE(sum_of_squares(values) == oracle_squares(values));
        REQUIRE(std::bit_cast<float>(largest_magnitude_bits(values)) ==
                oracle_norm(values, Norm::max));
      }
    }
  });
}

TEST_CASE("a value that is not finite makes both norms not finite", "[level_kernels]") {
  for_each_simd_target([] {
    for (const std::size_t at : {0u, 5u, 31u, 36u}) {
      for (const float bad : {kInfinity, -kInfinity, std::nanf(""), -std::nanf("")}) {
        auto values = gaussian_values(37, 1);
        values[at] = bad;
        REQUIRE_FALSE(std::isfinite(sum_of_squares(values)));
        REQUIRE(largest_magnitude_bits(values) > 0x7F7FFFFFu);
      }
    }
  });
}

TEST_CASE("fixed packing round-trips every width and length", "[fixed_coding]") {
  const RandomStream random({9, 0, 0, 0});
  for_each_simd_target([&] {
    for (int bits = 2; bits <= 8; ++bits) {
      for (const std::size_t count :
           {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 127u, 128u, 129u, 511u, 512u, 1543u}) {
        std::vector<LevelCode> codes(count);
        for (std::size_t i = 0; i < count; ++i) {
          const auto word = random.bits(static_cast<std::uint32_t>(i));
          codes[i] =
              static_cast<LevelCode>((word & ((1u << (bits - 1)) - 1)) | (word >> 24 & 0x80u));
        }
        std::vector<std::byte> packed(fixed_bytes(count, bits));
        pack_fixed(codes, bits, packed);
        for (std::size_t i = 0; i < count; ++i) {
          for (int k = 0; k < bits; ++k) {
            const std::size_t at = oracle_bit(i, k, bits, count);
            const unsigned bit = std::to_integer<unsigned>(packed[at / 8]) >> (at % 8) & 1u;
            const unsigned code = codes[i];
            REQUIRE(bit == (code >> (k == bits - 1 ? 7 : k) & 1u));
          }
        }
        // Values that distinguish every code from every other.
        const std::size_t half = std::size_t{1} << (bits - 1);
        std::vector<float> value(2 * half), sum(count), expected(count);
        for (std::size_t k = 0; k < half; ++k) {
          value[k] = static_cast<float>(k + 1);
          value[k + half] = -value[k];
        }
        for (std::size_t i = 0; i < count; ++i) {
          expected[i] = value[(codes[i] & 0x7Fu) + (codes[i] >> 7) * half];
        }
        const PackedBucket bucket{packed.data(), value.data()};
        add_fixed(std::span(&bucket, 1), bits, sum);
        REQUIRE(sum == expected);
      }
    }
  });
}

TEST_CASE("adding packed buckets equals a plain loop on every target", "[fixed_coding]") {
  const RandomStream random({10, 0, 0, 0});
  for_each_simd_target([&] {
    for (int bits = 2; bits <= 8; ++bits) {
      const std::size_t half = std::size_t{1} << (bits - 1);
      for (const std::size_t messages : {0u, 1u, 2u, 3u, 8u, 13u}) {
        for (const std::size_t count : {1u, 17u, 128u, 1543u}) {
          std::vector<std::vector<std::byte>> packed(messages);
          std::vector<std::vector<float>> value(messages, std::vector<float>(2 * half));
          std::vector<PackedBucket> buckets;
          auto sum = gaussian_values(count, 2);
          auto expected = sum;
          std::uint32_t next = 0;
          for (std::size_t m = 0; m < messages; ++m) {
            packed[m].resize(fixed_bytes(count, bits));
            for (auto& byte : packed[m]) byte = static_cast<std::byte>(random.bits(next++));
            for (std::size_t k = 0; k < half; ++k) {
              value[m][k] = random.uniform(next++);
              value[m][k + half] = -value[m][k];
            }
            buckets.push_back({packed[m].data(), value[m].data()});
            for (std::size_t i = 0; i < count; ++i) {
              unsigned code = 0;
              for (int k = 0; k < bits; ++k) {
                const std::size_t at = oracle_bit(i, k, bits, count);
                code |= (std::to_integer<unsigned>(packed[m][at / 8]) >> (at % 8) & 1u) << k;
              }
              expected[i] += value[m][code];
            }
          }
          add_fixed(buckets, bits, sum);
          REQUIRE(sum == expected);
        }
      }
    }
  });
}

TEST_CASE("adding codes equals a plain loop on every target", "[fixed_coding]") {
  const RandomStream random({11, 0, 0, 0});
  for_each_simd_target([&] {
    for (const int bits : {2, 4, 5, 8}) {
      float value[256] = {};
      for (std::size_t i = 0; i < std::size_t{1} << (bits - 1); ++i) {
        value[i] = std::sin(static_cast<float>(i));
        value[i + kSignCode] = -value[i];
      }
      for (const std::size_t count : {0u, 1u, 2u, 7u, 15u, 16u, 17u, 31u, 33u, 1001u}) {
        auto sum = gaussian_values(count, 2);
        auto expected = sum;
        std::vector<LevelCode> codes(count);
        for (std::size_t i = 0; i < count; ++i) {
          const std::uint32_t word = random.bits(static_cast<std::uint32_t>(i));
          codes[i] =
              static_cast<LevelCode>((word & ((1u << (bits - 1)) - 1)) | (word >> 24 & 0x80u));
          expected[i] += value[codes[i]];
        }
        add_codes(codes, bits, value, sum);
        REQUIRE(sum == expected);
      }
    }
  });
}

TEST_CASE("whole blocks pack as they quantize", "[level_kernels]") {
  for_each_simd_target([] {
    for (const int bits : {2, 4, 8}) {
      const int n = (1 << (bits - 1)) - 1;
      for (const bool uniform : {false, true}) {
        const LevelTable table(uniform ? uniform_levels(n) : sinh_levels(n, 3.0 / n), uniform);
        const auto values = gaussian_values(3 * block_values(bits), 6);
        const float inverse = inverse_of(table, 5.0f);
        std::vector<LevelCode> codes(values.size());
        std::vector<std::byte> expected(fixed_bytes(values.size(), bits)), packed(expected.size());
        for (const Strata* const strata : {strata_of(0, 1), strata_of(2, 4)}) {
          const RandomStream stream(kKey, 0, strata);
          quantize(values, inverse, table, stream, 77, codes);
          pack_fixed(codes, bits, expected);
          quantize_and_pack(values, inverse, table, stream, 77, packed);
          REQUIRE(packed == expected);
        }
      }
    }
  });
}

TEST_CASE("the four words of a random word are uniform, also jointly", "[level_kernels]") {
  // 64 x 64 cells of each two of the four: chi-squared has 4095 degrees of freedom.
  const RandomStream random({12, 0, 0, 0});
  constexpr std::size_t kCells = 64, kDraws = std::size_t{1} << 18;
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = a + 1; b < 4; ++b) {
      std::vector<double> seen(kCells * kCells);
      for (std::uint32_t i = 0; i < kDraws; ++i) {
        const std::uint32_t word = random.product(i);
        seen[(word * kRowMultiplier[a] >> 26) * kCells + (word * kRowMultiplier[b] >> 26)] += 1;
      }
      const double expected = static_cast<double>(kDraws) / static_cast<double>(seen.size());
      double chi = 0;
      for (const double s : seen) chi += (s - expected) * (s - expected) / expected;
      INFO("rows " << a << " and " << b);
      REQUIRE(std::abs(chi - 4095) < 5 * std::sqrt(2 * 4095.0));
    }
  }
}

TEST_CASE("levels that are equal in fp32 are a usage error", "[level_table]") {
  const auto kind_of = [](const Levels& levels) {
    try {
      const LevelTable table(levels, false);
    } catch (const Error& error) {
      return error.kind();
    }
    return Kind::bug;
  };
  REQUIRE(kind_of(exponential_levels(127, 0.01)) == Kind::usage);    // the smallest is 1e-252
  REQUIRE(kind_of(exponential_levels(7, 0.999999)) == Kind::usage);  // too close for the lookup
  REQUIRE(kind_of(exponential_levels(7, 1 - 1e-12)) == Kind::usage);
  REQUIRE(kind_of(sinh_levels(7, 1000.0)) == Kind::usage);
  REQUIRE_NOTHROW(LevelTable(exponential_levels(127, 0.999), false));
}
