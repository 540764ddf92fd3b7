// SPDX-License-Identifier: Apache-2.0
// The magnitudes of a block's values as a histogram, and the step of a dead-zone quantizer that
// spends a given number of bits on them.
//
// Source   H. Gish and J. N. Pierce, IEEE Trans. Inf. Theory 14 (1968): uniform steps with entropy
//          coding are near the rate-distortion bound; G. J. Sullivan, IEEE Trans. Inf. Theory 42
//          (1996): dead zone and centroids for Laplacian sources
// Symbols  D step; z D dead zone: magnitudes below it become 0; index j >= 1 has the magnitudes
//          from (z + j - 1) D to (z + j) D
// Method   bins of an 8th to a 64th of an octave, in which values are taken as evenly spread; the
//          step is found by regula falsi from the expected bits, which fall as it grows

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/entropy/code_kernels.hpp"

namespace eqt::codec {

/// The dead zone z of a rate R [bits per value].
double dead_zone_of(double rate) noexcept;

/// The largest index that is coded, which stands for all larger ones: the escape.
inline constexpr std::uint32_t kEscape = 15;
inline constexpr int kMostLowBits = 7;

/// A dead-zone quantizer of one block.
struct DeadZone {
  float step = 0;                // D
  float zone = 0.5f;             // z, in steps
  int low_bits = 0;              // of an index, sent as they are
  std::uint32_t last = kEscape;  // the index of all larger magnitudes, too
  double first = 1;              // mean of the magnitudes of index 1, in steps
  double second = 2;             // mean of those of index 2 and above, moved down by j - 2 steps
  double escapes = 0;            // expected bits of the values that are sent as they are

  /// The least magnitude whose code is not 0, in steps.
  double threshold() const {
    return low_bits > 0 ? (1 << low_bits) / 2 : static_cast<double>(zone);
  }
};

class MagnitudeHistogram {
 public:
  /// Starts anew with some of the values, if they are many: a sample (dead_zone_kernels.hpp). Bins
  /// are of an eighth of an octave.
  /// @param largest the largest magnitude, above 0
  void sample(std::span<const float> values, float largest);
  /// Starts anew with all of the values, in bins of a 32nd of an octave, down to a 128th of the
  /// largest. Smaller steps are not found.
  void count(std::span<const float> values, float largest);
  /// Starts anew with all of the values, in bins of an eighth of an octave, however small.
  void count_wide(std::span<const float> values, float largest);
  /// Starts anew with all of the values, in bins of a 64th of an octave around a dead zone: from
  /// half of it to four times it.
  void count_near(std::span<const float> values, float largest, double magnitude);

  /// The quantizer whose expected bits for the block are at most `budget`; but at least the largest
  /// value is above the dead zone. At low rates it has one index, two or kEscape, whichever is
  /// expected to have the least squared error.
  /// @pre there are values
  DeadZone quantizer(double budget, double rate) const;

  /// The quantizer of least squared error with the indices 0 ... last, of which the last one stands
  /// for all larger magnitudes, too. It is found to a sixty-fourth of an octave of the step.
  /// @pre there are values; last >= 1
  DeadZone of_least_error(std::uint32_t last) const;

  /// Expected bits of nested gaps (nested_gaps.hpp) for indices of these counts.
  static double gap_bits(const IndexCounts& counts);

 private:
  static constexpr std::size_t kBins = 256;

  /// Number, sum and sum of squares of the magnitudes that are at least a bin's lower end.
  struct Tail {
    double count = 0;
    double sum = 0;
    double square = 0;
  };
  static Tail joined(double n, double low, double high, const Tail& above);
  void start(std::size_t size, float largest, int shift, double smallest);
  void add(std::span<const float> values, bool sampled);
  void add_wide(std::span<const float> values, float largest, bool sampled);
  void accumulate();
  float lower_end(std::size_t bin) const;
  Tail above(double magnitude) const;
  double bits(DeadZone& zone) const;  // and sets zone.escapes
  DeadZone fit(double budget, double zone, int low_bits, std::uint32_t last = kEscape) const;
  double error(DeadZone& zone, std::uint32_t last) const;
  void centre(DeadZone& zone, std::uint32_t last, const Tail& escaped) const;

  float largest_ = 0;
  std::size_t size_ = 0;   // values of the block
  std::size_t taken_ = 0;  // values in the histogram
  // Bins are numbered by the upper bits of a magnitude: those from shift_ on. The first has all
  // smaller magnitudes, too, and the last one all larger ones.
  int shift_ = 0;
  std::size_t first_bin_ = 0, last_bin_ = 0;
  std::array<std::uint32_t, kBins> counts_;  // by bin, from first_bin_ on
  std::array<Tail, kBins + 1> tails_;        // by bin, from first_bin_ on
};

}  // namespace eqt::codec
