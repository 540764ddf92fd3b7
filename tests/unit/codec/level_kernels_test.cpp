// The vector kernels against the plain oracle, on every instruction set of this machine.

#include "codec/level_kernels.hpp"

#include <cstring>
#include <vector>

#include "codec/fixed_coding.hpp"
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

void check_quantize(const Levels& levels, bool uniform, const std::vector<float>& values,
                    float norm) {
  const LevelTable table(levels, uniform);
  const auto expected = oracle_indices(values, norm, levels, uniform, kKey, 5);
  const auto inverse = static_cast<float>((uniform ? table.count : 1) / static_cast<double>(norm));
  std::vector<LevelCode> codes(values.size());
  quantize(values, inverse, table, RandomStream(kKey), 5, codes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO("value " << values[i] << " at " << i << ", " << table.count << " levels");
    REQUIRE((codes[i] & 0x7Fu) == expected[i]);
    REQUIRE((codes[i] >= kSignCode) == (expected[i] > 0 && std::signbit(values[i])));
  }
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

TEST_CASE("values at and beside the levels round like the oracle", "[level_kernels]") {
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

TEST_CASE("r = 1 always reaches the last level", "[level_kernels]") {
  const std::vector<float> top(4096, 0.7f);
  for (int n : {1, 7, 15, 127}) {
    for (const bool uniform : {false, true}) {
      const LevelTable table(uniform ? uniform_levels(n) : sinh_levels(n, 0.1), uniform);
      std::vector<LevelCode> codes(top.size());
      const auto inverse = static_cast<float>((uniform ? n : 1) / static_cast<double>(0.7f));
      quantize(top, inverse, table, RandomStream(kKey), 0, codes);
      for (const LevelCode code : codes) REQUIRE(code == n);
    }
  }
}

TEST_CASE("sums of squares have the same bits on every target", "[level_kernels]") {
  for_each_simd_target([] {
    for (const std::size_t count : law_counts()) {
      for (const auto& [name, values] : special_values(count)) {
        INFO(name << " " << count);
        double partial[16] = {};
        for (std::size_t i = 0; i < count; ++i) {
          partial[i % 16] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
        }
        for (std::size_t width : {8u, 4u, 2u, 1u}) {
          for (std::size_t k = 0; k < width; ++k) partial[k] += partial[k + width];
        }
        REQUIRE(sum_of_squares(values) == partial[0]);
        REQUIRE(std::bit_cast<float>(largest_magnitude_bits(values)) ==
                oracle_norm(values, Norm::max));
      }
    }
  });
}

TEST_CASE("a value that is not finite shows in both norms", "[level_kernels]") {
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
      for (const std::size_t count : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 127u, 128u, 129u, 1000u}) {
        std::vector<LevelCode> codes(count);
        for (std::size_t i = 0; i < count; ++i) {
          const auto word = random.bits(static_cast<std::uint32_t>(i));
          codes[i] =
              static_cast<LevelCode>((word & ((1u << (bits - 1)) - 1)) | (word >> 24 & 0x80u));
        }
        std::vector<std::byte> packed(fixed_bytes(count, bits));
        pack_fixed(codes, bits, packed);
        // Value i occupies the stream's bits i * bits ..., lowest first, sign on top.
        for (std::size_t i = 0; i < count; ++i) {
          for (int k = 0; k < bits; ++k) {
            const std::size_t at = i * static_cast<std::size_t>(bits) + static_cast<std::size_t>(k);
            const unsigned bit = std::to_integer<unsigned>(packed[at / 8]) >> (at % 8) & 1u;
            const unsigned code = codes[i];
            REQUIRE(bit == (code >> (k == bits - 1 ? 7 : k) & 1u));
          }
        }
        std::vector<LevelCode> unpacked(count);
        unpack_fixed(packed, bits, unpacked);
        REQUIRE(unpacked == codes);
      }
    }
  });
}

TEST_CASE("adding nibbles and codes equals a plain loop on every target", "[level_kernels]") {
  const RandomStream random({10, 0, 0, 0});
  float magnitude[8], value[256];
  for (std::size_t i = 0; i < 8; ++i) magnitude[i] = 0.37f * static_cast<float>(i * i);
  for (std::size_t i = 0; i < 256; ++i) value[i] = std::sin(static_cast<float>(i));
  for_each_simd_target([&] {
    for (const std::size_t count : {0u, 1u, 2u, 7u, 15u, 16u, 17u, 31u, 33u, 1001u}) {
      std::vector<std::byte> nibbles((count + 1) / 2);
      for (std::size_t i = 0; i < nibbles.size(); ++i) {
        nibbles[i] = static_cast<std::byte>(random.bits(static_cast<std::uint32_t>(i)));
      }
      auto sum = gaussian_values(count, 2);
      auto expected = sum;
      for (std::size_t i = 0; i < count; ++i) {
        const unsigned nibble = std::to_integer<unsigned>(nibbles[i / 2]) >> (i % 2 * 4) & 15u;
        expected[i] += nibble >= 8 ? -magnitude[nibble - 8] : magnitude[nibble];
      }
      add_nibbles(nibbles, magnitude, sum);
      REQUIRE(sum == expected);

      std::vector<LevelCode> codes(count);
      for (std::size_t i = 0; i < count; ++i) {
        codes[i] = static_cast<LevelCode>(random.bits(static_cast<std::uint32_t>(i)) >> 8);
        expected[i] += value[codes[i]];
      }
      add_codes(codes, value, sum);
      REQUIRE(sum == expected);
    }
  });
}

TEST_CASE("levels that fp32 cannot tell apart are a usage error", "[level_table]") {
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
