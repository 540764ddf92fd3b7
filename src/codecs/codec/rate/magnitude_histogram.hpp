// SPDX-License-Identifier: Apache-2.0
// The magnitudes of a block's values as a histogram, and the step of a dead-zone quantizer that
// spends a given number of bits on them.
//
// Source   H. Gish and J. N. Pierce, IEEE Trans. Inf. Theory 14 (1968): uniform steps with entropy
//          coding are near the rate-distortion bound; G. J. Sullivan, IEEE Trans. Inf. Theory 42
//          (1996): dead zone and centroids for Laplacian sources
// Symbols  D step; z D dead zone: magnitudes below it become 0; index j >= 1 has the magnitudes
//          from (z + j - 1) D to (z + j) D
// Method   bins of an eighth of an octave, in which values are taken as evenly spread; the step is
//          found by bisection of the expected bits, which fall as it grows

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace eqt::codec {

/// The dead zone z of a rate R [bits per value].
double dead_zone_of(double rate) noexcept;

/// A dead-zone quantizer of one block.
struct DeadZone {
  float step = 0;            // D; 0: all values are 0
  float zone = 0.5f;         // z, in steps
  std::uint32_t escape = 0;  // values of this index and above are sent as they are
  int low_bits = 0;          // of an index, sent as they are
  double first = 1;          // mean of the magnitudes of index 1, in steps
  double second = 2;         // mean of those of index 2 and above, moved down by j - 2 steps
};

/// Wide and narrow alphabets of indices; the escape is the last index.
inline constexpr std::uint32_t kNarrowEscape = 15, kWideEscape = 127;

class MagnitudeHistogram {
 public:
  MagnitudeHistogram() : counts_(kBins) {}

  /// Starts anew with some of the values: 16 of each 64 where they are many, else all.
  void sample(std::span<const float> values);
  /// Starts anew with all of the values.
  void count(std::span<const float> values);

  /// The quantizer whose expected bits for the block are at most `budget`; but at least the largest
  /// value is above the dead zone.
  /// @param largest the largest magnitude, above 0
  /// @pre there are values
  DeadZone quantizer(double budget, double rate, float largest);

 private:
  static constexpr std::size_t kBins = 2048;  // by exponent and 3 bits of the fraction
  static constexpr int kOctaves = 24;         // below the largest; smaller values count as 0

  /// Numbers and sums of magnitudes that are at least a bin's lower end.
  struct Tail {
    double count = 0;
    double sum = 0;
  };
  void add(std::span<const float> values);
  void accumulate(float largest);
  Tail above(double magnitude) const;
  double bits(const DeadZone& zone, double largest) const;
  void centre(DeadZone& zone, double largest) const;

  std::vector<std::uint32_t> counts_;
  std::size_t taken_ = 0;      // values in the histogram
  std::size_t size_ = 0;       // values of the block
  std::size_t first_bin_ = 0;  // of tails_
  std::vector<Tail> tails_;    // by bin, from first_bin_ on
};

}  // namespace eqt::codec
