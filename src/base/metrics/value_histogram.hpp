// SPDX-License-Identifier: Apache-2.0
// A histogram of values of any size, computed in one pass.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// Bins of half an octave on both sides of zero: [2^e, 1.5 2^e) and [1.5 2^e, 2^(e+1)), which the
/// leading bits of a float identify. The middle bin has everything below 2^-40 in magnitude.
class ValueHistogram {
 public:
  /// Values that are not finite are not counted.
  void add(std::span<const float> values) noexcept;
  /// Adds all values of `other`.
  void add(const ValueHistogram& other) noexcept;
  void clear() noexcept { *this = {}; }
  bool empty() const noexcept { return number_ == 0; }
  /// Returns the bins from the first to the last one that is not empty. Runs of empty bins are
  /// merged.
  /// @pre !empty()
  HistogramRecord record(std::string name, StepId step) const;

 private:
  static constexpr std::uint32_t kShift = 22;  // keeps the exponent and one bit of the mantissa
  static constexpr std::uint32_t kFirstKey = (127 - 40) << 1;  // of 2^-40
  static constexpr std::uint32_t kKeys = (255 << 1) - kFirstKey;

  std::array<std::uint64_t, kKeys> below_{}, above_{};  // by magnitude
  std::uint64_t middle_ = 0, number_ = 0;
  double sum_ = 0, squares_ = 0;
  float least_ = 0, most_ = 0;
};

}  // namespace eqt::metrics
