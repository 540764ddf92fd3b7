// SPDX-License-Identifier: Apache-2.0
// The level codecs' rounding and fixed coding as in FORMAT.md, value by value and bit by bit.
// `word` are 32 random bits, so tests can inject their own.

#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/levels/levels.hpp"
#include "core/random.hpp"

namespace eqt::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline double oracle_squares(std::span<const float> v) {
  double partial[32] = {};
  for (std::size_t i = 0; i < v.size(); ++i) {
    partial[i % 32] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  }
  for (std::size_t width : {16u, 8u, 4u, 2u, 1u}) {
    for (std::size_t k = 0; k < width; ++k) partial[k] += partial[k + width];
  }
  return partial[0];
}

inline float oracle_norm(std::span<const float> v, codec::Norm norm) {
  if (norm == codec::Norm::max) {
    float largest = 0;
    for (const float x : v) largest = std::fmax(largest, std::fabs(x));
    return largest;
  }
  const double exact = std::sqrt(oracle_squares(v));
  if (exact > static_cast<double>(std::numeric_limits<float>::max())) return kInfinity;
  const auto rounded = static_cast<float>(exact);
  return static_cast<double>(rounded) < exact ? std::nextafter(rounded, kInfinity) : rounded;
}

inline bool oracle_is_powers(const codec::Levels& levels) {
  for (std::size_t j = 1; j < levels.size(); ++j) {
    if (levels[j] != std::ldexp(1.0, static_cast<int>(j) - static_cast<int>(levels.size()) + 1)) {
      return false;
    }
  }
  return true;
}

/// f(r) * 2^fraction_bits from the line of r's cell.
inline std::uint32_t oracle_line(const codec::Levels& levels, float r, int fraction_bits) {
  const std::size_t n = levels.size() - 1;
  std::size_t j = 0;
  while (j + 1 < n && static_cast<float>(levels[j + 1]) <= r) ++j;
  const double low = static_cast<float>(levels[j]), high = static_cast<float>(levels[j + 1]);
  auto slope = static_cast<float>(1 / (high - low));
  auto offset = static_cast<float>(static_cast<double>(j) - low / (high - low));
  if (j == n - 1) {  // rounded until n - slope is exact
    const float largest = std::fmax(slope, static_cast<float>(n));
    const float unit = std::ldexp(1.0f, std::ilogb(largest) + 1 - 24);
    slope = std::nearbyint(slope / unit) * unit;
    offset = static_cast<float>(n) - slope;
  }
  const float scale = std::ldexp(1.0f, fraction_bits);
  const float rise = slope * scale * r;
  return static_cast<std::uint32_t>(offset * scale + rise);
}

/// Index of one value. `norm` is neither 0 nor infinite. Rounds up if u < f - j, where u are the
/// leading bits of ~word.
inline unsigned oracle_index(float value, float norm, const codec::Levels& levels, bool uniform,
                             std::uint32_t word) {
  const std::size_t n = levels.size() - 1;
  const int bits = static_cast<int>(std::bit_width(n)) + 1, fraction_bits = 32 - bits;
  float power = 1;
  if (norm < 0x1p-64f) power = 0x1p64f;
  if (norm > 0x1p96f) power = 0x1p-64f;
  norm *= power;
  const auto top = static_cast<float>(n);
  auto inverse =
      static_cast<float>((uniform ? static_cast<double>(n) : 1.0) / static_cast<double>(norm));
  while (uniform && norm * inverse > top) inverse = std::nextafter(inverse, 0.0f);
  const float r = std::fabs(value * power) * inverse;
  std::uint32_t fixed = 0;
  if (uniform) {
    fixed = static_cast<std::uint32_t>(std::ldexp(r, fraction_bits));
  } else if (oracle_is_powers(levels)) {
    const float big = std::ldexp(r, static_cast<int>(n));
    fixed = std::bit_cast<std::uint32_t>(big + std::fmax(big, 2.0f)) << (9 - bits);
  } else {
    fixed = oracle_line(levels, r, fraction_bits);
  }
  const std::uint32_t one = std::uint32_t{1} << fraction_bits;
  const std::uint32_t u = ~word >> bits;
  return static_cast<unsigned>(fixed / one + (u < fixed % one));
}

/// The random word of value i, negative or not, of the bucket of `count` values that starts at
/// `first_index`. Strata may be null.
inline std::uint32_t oracle_word(const RandomKey& key, const Strata* strata,
                                 std::uint64_t first_index, std::size_t count, std::size_t i,
                                 bool negative) {
  auto block = static_cast<std::uint32_t>(first_index >> 32);
  if ((first_index + count - 1) >> 32 != first_index >> 32) block |= 0x80000000u;
  const std::size_t index = first_index + i / 64 * 16 + i % 16;
  const RandomStream stream(key, block, strata);
  std::uint32_t word = stream.product(static_cast<std::uint32_t>(index));
  for (std::size_t row = 0; row < i / 16 % 4; ++row) word *= 0x45108B7Du;
  if (strata == nullptr) return word;
  const auto run = static_cast<std::uint32_t>(first_index + i / 64 * 16);
  const std::uint64_t upper = std::uint64_t{word / 65536} * (strata->factor() / 65536) / 65536;
  const std::uint64_t lower = std::uint64_t{word % 65536} * (strata->factor() % 65536) / 65536;
  word = static_cast<std::uint32_t>(stream.strata_of_run(run)[i % 64] + 65536 * upper + lower);
  return negative ? 0xFFFFFFFFu - word : word;
}

inline std::vector<unsigned> oracle_indices(std::span<const float> bucket, float norm,
                                            const codec::Levels& levels, bool uniform,
                                            const RandomKey& key, std::uint64_t first_index,
                                            const Strata* strata = nullptr) {
  std::vector<unsigned> indices;
  for (std::size_t i = 0; i < bucket.size(); ++i) {
    const std::uint32_t word =
        oracle_word(key, strata, first_index, bucket.size(), i, std::signbit(bucket[i]));
    indices.push_back(oracle_index(bucket[i], norm, levels, uniform, word));
  }
  return indices;
}

/// The position of bit k of code i in fixed coding [bits from the bucket's start].
inline std::size_t oracle_bit(std::size_t i, int k, int bits, std::size_t count) {
  const auto b = static_cast<std::size_t>(bits), bit = static_cast<std::size_t>(k);
  const std::size_t rows = 32 % b == 0 ? 32 / b : 32, block = 16 * rows;
  if (i >= count - count % block) return i * b + bit;
  const std::size_t column = i % 16, in_column = i % block / 16 * b + bit;
  return i / block * block * b + in_column / 32 * 512 + column * 32 + in_column % 32;
}

struct OracleCodec {
  codec::Levels levels;
  bool uniform;
  int bits;
  std::size_t bucket_size;
  codec::Norm norm;
};

/// The payload of fixed coding.
inline std::vector<std::byte> oracle_fixed_payload(const OracleCodec& c, std::span<const float> v,
                                                   const RandomKey& key, std::uint64_t first_index,
                                                   const Strata* strata = nullptr) {
  std::vector<std::byte> payload;
  const auto append = [&](const void* from, std::size_t bytes) {
    const std::size_t at = payload.size();
    payload.resize(at + bytes);
    std::memcpy(payload.data() + at, from, bytes);
  };
  for (std::size_t start = 0; start < v.size(); start += c.bucket_size) {
    const auto bucket = v.subspan(start, std::min(c.bucket_size, v.size() - start));
    const float norm = oracle_norm(bucket, c.norm);
    append(&norm, sizeof norm);
    if (norm == kInfinity) append(bucket.data(), bucket.size_bytes());
    if (norm == 0 || norm == kInfinity) continue;
    const auto indices =
        oracle_indices(bucket, norm, c.levels, c.uniform, key, first_index + start, strata);
    const std::size_t at = payload.size();
    payload.resize(at + (bucket.size() * static_cast<std::size_t>(c.bits) + 7) / 8);
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      const bool negative = indices[i] > 0 && std::signbit(bucket[i]);
      const unsigned code = indices[i] | static_cast<unsigned>(negative) << (c.bits - 1);
      for (int k = 0; k < c.bits; ++k) {
        const std::size_t bit = oracle_bit(i, k, c.bits, bucket.size());
        payload[at + bit / 8] |= static_cast<std::byte>((code >> k & 1u) << bit % 8);
      }
    }
  }
  return payload;
}

/// Elias omega of k as '0' and '1', from the definition.
inline std::string oracle_omega(std::uint64_t k) {
  std::string word = "0";
  while (k > 1) {
    std::string binary;
    for (std::uint64_t x = k; x > 0; x >>= 1) {
      binary.insert(binary.begin(), static_cast<char>('0' + static_cast<char>(x & 1)));
    }
    word.insert(0, binary);
    k = binary.size() - 1;
  }
  return word;
}

/// Containers W1 and W2 without the mode, as '0' and '1'.
inline std::string oracle_sparse(std::span<const unsigned> indices, std::span<const float> v) {
  std::size_t nonzeros = 0;
  for (const unsigned k : indices) nonzeros += k > 0;
  std::string bits = oracle_omega(nonzeros + 1);
  std::size_t next = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] == 0) continue;
    bits += oracle_omega(i + 1 - next) + (v[i] < 0 ? "1" : "0") + oracle_omega(indices[i]);
    next = i + 1;
  }
  return bits;
}

inline std::string oracle_dense(std::span<const unsigned> indices, std::span<const float> v) {
  std::string bits;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    bits += oracle_omega(indices[i] + 1);
    if (indices[i] > 0) bits += v[i] < 0 ? "1" : "0";
  }
  return bits;
}

}  // namespace eqt::test
