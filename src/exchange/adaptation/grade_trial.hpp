// SPDX-License-Identifier: Apache-2.0
// What each grade would make of a slice: some of its values are encoded and decoded with all of
// them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/mixed/mixed_grades.hpp"
#include "core/random.hpp"
#include "core/workspace.hpp"
#include "pipeline/plan.hpp"

namespace eqt::adaptation {

/// Values of a slice that are sent as one or more segments.
struct SliceParts {
  std::uint32_t slice = 0;
  std::size_t count = 0;  // compressed values
  struct Part {
    std::size_t begin = 0, count = 0;  // in the flat buffer
    std::uint64_t first_index = 0;     // in the slice
  };
  std::vector<Part> parts;  // ascending
};

/// The compressed slices of a plan, ascending by number.
std::vector<SliceParts> compressed_slices(std::span<const pipeline::FusionBucket> plan);

/// At most `most` ranges of a slice, evenly spaced, each of whole granules except the last one's
/// end; neighbours are one range.
std::vector<SliceParts::Part> sample_of(const SliceParts& slice, std::size_t granule,
                                        std::size_t most);

/// Holds what one grade gives, added up over ranges.
struct GradeTrial {
  double values = 0;
  double bytes = 0;
  double square = 0, error = 0;  // |v|^2, |decoded - v|^2
  double encode_seconds = 0, decode_seconds = 0;

  double bytes_per_value() const { return values > 0 ? bytes / values : 0; }
  double relative_error() const { return square > 0 ? error / square : 0; }
};

class GradeTrials {
 public:
  /// @param codec outlives it
  explicit GradeTrials(const codec::MixedGrades& codec) : codec_(codec) {}

  /// Tries each grade and returns the trials by grade. @param key names the random numbers
  std::vector<GradeTrial> run(std::span<const SliceParts::Part> ranges, std::span<const float> flat,
                              const RandomKey& key);

 private:
  const codec::MixedGrades& codec_;
  Workspace workspace_;
  std::vector<std::byte> payload_;
  std::vector<float> decoded_;
};

}  // namespace eqt::adaptation
