// The level codecs' rounding and fixed coding, value by value and bit by bit: what FORMAT.md says,
// without a thought for speed. `u24` are uniform draws times 2^24, so tests can inject their own.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "codec/codecs.hpp"
#include "codec/levels.hpp"
#include "core/random.hpp"

namespace eqt::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline float oracle_norm(std::span<const float> v, codec::Norm norm) {
  if (norm == codec::Norm::max) {
    float largest = 0;
    for (const float x : v) largest = std::fmax(largest, std::fabs(x));
    return largest;
  }
  double partial[16] = {};
  for (std::size_t i = 0; i < v.size(); ++i) {
    partial[i % 16] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  }
  for (std::size_t width : {8u, 4u, 2u, 1u}) {
    for (std::size_t k = 0; k < width; ++k) partial[k] += partial[k + width];
  }
  const double exact = std::sqrt(partial[0]);
  if (exact > static_cast<double>(std::numeric_limits<float>::max())) return kInfinity;
  const auto rounded = static_cast<float>(exact);
  return static_cast<double>(rounded) < exact ? std::nextafter(rounded, kInfinity) : rounded;
}

/// Index of one value. `norm` is neither 0 nor infinite.
inline unsigned oracle_index(float value, float norm, const codec::Levels& levels, bool uniform,
                             float u24) {
  const std::size_t n = levels.size() - 1;
  float power = 1;
  if (norm < 0x1p-64f) power = 0x1p64f;
  if (norm > 0x1p96f) power = 0x1p-64f;
  norm *= power;
  const float inverse =
      static_cast<float>((uniform ? static_cast<double>(n) : 1.0) / static_cast<double>(norm));
  const float r = std::fabs(value * power) * inverse;
  if (uniform) {
    std::size_t j = 0;
    while (j + 1 < n && static_cast<float>(j + 1) <= r) ++j;
    return static_cast<unsigned>(j + (u24 < (r - static_cast<float>(j)) * 0x1p24f));
  }
  std::size_t j = 0;
  while (j + 1 < n && static_cast<float>(levels[j + 1]) <= r) ++j;
  const auto low = static_cast<float>(levels[j]);
  const float gap = static_cast<float>(levels[j + 1]) - low;
  float slope = 0x1p24f / gap;
  while (slope * gap < 0x1p24f) slope = std::nextafter(slope, kInfinity);
  return static_cast<unsigned>(j + (u24 < (r - low) * slope));
}

inline std::vector<unsigned> oracle_indices(std::span<const float> bucket, float norm,
                                            const codec::Levels& levels, bool uniform,
                                            const RandomKey& key, std::uint64_t first_index) {
  std::vector<unsigned> indices;
  for (std::size_t i = 0; i < bucket.size(); ++i) {
    const std::uint64_t at = first_index + i;
    const RandomStream stream(key, static_cast<std::uint32_t>(at >> 32));
    const auto u24 = static_cast<float>(stream.bits(static_cast<std::uint32_t>(at)) >> 8);
    indices.push_back(oracle_index(bucket[i], norm, levels, uniform, u24));
  }
  return indices;
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
                                                   const RandomKey& key,
                                                   std::uint64_t first_index) {
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
        oracle_indices(bucket, norm, c.levels, c.uniform, key, first_index + start);
    std::vector<bool> stream;
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      for (int k = 0; k < c.bits - 1; ++k) stream.push_back(indices[i] >> k & 1u);
      stream.push_back(indices[i] > 0 && std::signbit(bucket[i]));
    }
    while (stream.size() % 8 != 0) stream.push_back(false);
    for (std::size_t i = 0; i < stream.size(); i += 8) {
      unsigned byte = 0;
      for (std::size_t k = 0; k < 8; ++k) byte |= static_cast<unsigned>(stream[i + k]) << k;
      payload.push_back(static_cast<std::byte>(byte));
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
