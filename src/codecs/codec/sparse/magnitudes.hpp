// SPDX-License-Identifier: Apache-2.0
// A few magnitudes that stand for many: the centroids of Lloyd and Max, or a spread between two.
//
// Source   S. P. Lloyd, IEEE Trans. Inf. Theory 28 (1982); J. Max, IRE Trans. Inf. Theory 6 (1960);
//          the least error by dynamic programming: W. D. Fisher, JASA 53 (1958), and X. Wu,
//          J. Algorithms 12 (1991)
// Symbols  x the magnitudes of k values, m_0 <= ... <= m_(c-1) those that stand for them
// Method   centroids: x is counted in up to 257 bins, which are of equal width in the bits of a
//          float, so logarithmic, over the upper 16 octaves. Of all divisions of the bins into c
//          ranges the one with the least squared error is found, and m_j is the mean of a range.
//          All sums are in fp64, in the order of the values, so that the result is the same on
//          every machine. Spread: the square roots of m_j are evenly spaced
// Error    centroids: sum (x - m)^2 <= sum x^2 - (sum x)^2 / k; spread: |x - m| <= min(x, half a
//          gap)

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::codec {

/// Bits of a value that is a sign and the index of one of 2^(bits - 1) magnitudes: 1 to this.
inline constexpr int kMostFewBits = 8;
inline constexpr std::size_t kMostMagnitudes = std::size_t{1} << (kMostFewBits - 1);
/// More magnitudes than this are always spread between two.
inline constexpr std::size_t kMostCentroids = 8;

/// Magnitudes that do not descend.
struct Magnitudes {
  std::size_t count = 0;  // a power of two
  std::array<float, kMostMagnitudes> values{};

  std::span<float> all() { return std::span(values).first(count); }
  std::span<const float> all() const { return std::span(values).first(count); }
};

struct MagnitudeRange {
  float smallest = 0;
  float largest = 0;
};

/// Returns the smallest and the largest magnitude; 0 and 0 of no values.
/// @pre all values are finite
MagnitudeRange range_of(std::span<const float> values);

/// Sets to[0] = smallest ... to[last] = largest, with square roots that are evenly spaced.
void spread_between(MagnitudeRange range, std::span<float> to);

/// Sets `to` to the centroids of the magnitudes of `values`; the last ones are equal if there are
/// fewer bins than centroids.
/// @pre values are not empty and finite; to.size() <= kMostCentroids
void fit_centroids(std::span<const float> values, std::span<float> to);

/// Finds the nearest magnitude of a value, and of two that are equally near the smaller one.
class NearestMagnitude {
 public:
  explicit NearestMagnitude(std::span<const float> magnitudes);

  /// Returns the index of the magnitude that is nearest to |value|.
  std::uint32_t operator()(float value) const noexcept;

 private:
  std::size_t half_;                            // of the number of magnitudes
  std::array<double, kMostMagnitudes> bounds_;  // halfway between neighbours
};

}  // namespace eqt::codec
