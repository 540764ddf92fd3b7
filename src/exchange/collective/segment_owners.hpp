// SPDX-License-Identifier: Apache-2.0
// Ranges of values are dealt evenly to the ranks or lanes that sum them. Private to the room.

#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "codec/sparse/entries.hpp"
#include "core/saved_state.hpp"
#include "pipeline/plan.hpp"

namespace eqt::collective {

/// Counts how many values each receiver has so far. If receivers took turns with tensors of very
/// different sizes, one of them would have half as many values again as the mean, and all others
/// would wait for it.
class LeastLoaded {
 public:
  explicit LeastLoaded(std::size_t receivers) : values_(receivers) {}

  std::size_t receivers() const noexcept { return values_.size(); }

  /// @return the one with the fewest values, the first of equals, which now has `count` more
  std::size_t give(std::size_t count) {
    const auto least = std::min_element(values_.begin(), values_.end());
    *least += count;
    return static_cast<std::size_t>(least - values_.begin());
  }

 private:
  std::vector<std::size_t> values_;
};

/// The segments of one fusion bucket by rank, each list ascending.
using DealtSegments = std::vector<std::vector<codec::Segment>>;

/// Cuts each bucket into segments and assigns each to the rank that owns the fewest values, from
/// the last value of the model to the first. Fusion buckets are sent in that order, so the owner of
/// a value depends on its place in the model and not on where buckets are cut. Returns one
/// assignment per bucket.
/// @pre !pipeline::needs_whole_slices(compressor)
std::vector<DealtSegments> deal_segments(std::span<const pipeline::FusionBucket> plan,
                                         const codec::Compressor& compressor, std::size_t ranks);

// The rest serves the collective `sparse`.

/// A segment of a fusion bucket and the owners of its parts. Part p of a compressed segment is
/// part p of the deal, of a raw one its range p of kRawPart values.
struct OwnedSegment {
  codec::Segment whole;
  codec::Deal deal;                    // compressed segments only
  std::vector<std::size_t> owners;     // by part
  std::vector<std::size_t> sums_from;  // by part: where its sums begin in the owner's buffer
};

/// One of these parts.
struct SegmentPart {
  std::size_t segment = 0, part = 0;  // in SegmentOwners::segments; which of its parts
};

/// The segments of one fusion bucket and the parts that each rank owns.
struct SegmentOwners {
  std::vector<OwnedSegment> segments;  // one for each segment of the bucket, in its order
  // Each rank has its parts, in the order of the segments, and the segments that carry them in
  // messages. `begin` is a place in the owner's buffer of sums for compressed segments, in the flat
  // buffer for raw ones.
  std::vector<std::vector<SegmentPart>> parts_of;
  std::vector<std::vector<codec::Segment>> segments_of;
};

/// Values of a part of a raw segment.
inline constexpr std::size_t kRawPart = 8192;
/// A compressed segment is divided among as many ranks as get at least this many of its values: at
/// a density of 1 % the 9 bytes before a payload are then below a twentieth of it.
inline constexpr std::size_t kMinPart = 4096;

/// Assigns from the model's last value to the first, the order in which buckets are sent. So the
/// owner of a value depends neither on where fusion buckets are cut nor on the values.
/// @param sums_of  set to the number of sums that each rank keeps
std::vector<SegmentOwners> assign_owners(std::span<const pipeline::FusionBucket> plan,
                                         std::size_t ranks, std::vector<std::size_t>& sums_of);

/// Returns which value of the model each of the rank's `sums` sums is of.
/// @param owners  of all fusion buckets
std::vector<SliceRange> places_of_sums(std::span<const SegmentOwners> owners, std::size_t rank,
                                       std::size_t sums);

}  // namespace eqt::collective
