// SPDX-License-Identifier: Apache-2.0
// Norm, inverse norm and random words of a bucket, with the same bits on every machine.

#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "codec/levels/level_table.hpp"
#include "core/random.hpp"

namespace eqt::codec {

/// Outside this range 1 / norm or r = |v| / norm would lose bits, so such buckets are first scaled
/// by a power of two.
inline constexpr float kSmallNorm = 0x1p-64f;
inline constexpr float kLargeNorm = 0x1p+96f;

/// The smallest float that is not below sqrt(squares), so that |v| / norm <= 1; +infinity if there
/// is none.
inline float norm_of_squares(double squares) {
  const double norm = std::sqrt(squares);
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (norm > static_cast<double>(kLargest)) return std::numeric_limits<float>::infinity();
  const auto rounded = static_cast<float>(norm);
  if (static_cast<double>(rounded) >= norm) return rounded;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) + 1);
}

/// The factor of |v| in quantize(), chosen so that f(norm) is at most n.
/// @pre kSmallNorm <= norm <= kLargeNorm
inline float inverse_of(const LevelTable& table, float norm) {
  if (!table.uniform) return static_cast<float>(1 / static_cast<double>(norm));
  const auto n = static_cast<float>(table.count);
  auto inverse = static_cast<float>(table.count / static_cast<double>(norm));
  // Half of all norms need a step, which no branch can foresee; few need another.
  const auto above = [&] { return norm * inverse > n; };
  const auto step = [&](std::uint32_t by) {
    inverse = std::bit_cast<float>(std::bit_cast<std::uint32_t>(inverse) - by);
  };
  step(above() ? 1 : 0);
  while (above()) step(1);
  return inverse;
}

/// value[code] = scale * norm * level for each code; codes with a sign start at index `sign`.
inline void fill_values(const LevelTable& table, float norm, float scale, std::size_t sign,
                        float* value) {
  const auto levels = static_cast<std::size_t>(table.count) + 1;
  for (std::size_t i = 0; i < levels; ++i) value[i] = scale * (norm * table.level[i]);
  for (std::size_t i = 0; i < levels; ++i) value[i + sign] = -value[i];
}

/// The random stream of a bucket, with strata if they are not null. A bucket that crosses a block
/// of 2^32 indices has a separate stream, so that no word is used twice.
inline RandomStream bucket_stream(const RandomKey& key, std::uint64_t first_index,
                                  std::size_t count, const Strata* strata) {
  const auto block = static_cast<std::uint32_t>(first_index >> 32);
  const bool crosses = (first_index + count - 1) >> 32 != first_index >> 32;
  return RandomStream(key, crosses ? block | 0x80000000u : block, strata);
}

}  // namespace eqt::codec
