// SPDX-License-Identifier: Apache-2.0
// Lanes: the ranks of a host share the averaging with other hosts. Private to the room.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "comm/communicator.hpp"

namespace eqt::collective {

/// The values of one fusion bucket that one lane averages.
struct LaneSegments {
  std::vector<codec::Segment> segments;  // in the flat buffer, ascending
  std::size_t count = 0;                 // [values]
  /// No value of another lane is between the ranges, so they can be sent from their place.
  bool contiguous() const {
    return segments.empty() ||
           segments.back().begin + segments.back().count - segments.front().begin == count;
  }
};

/// The number of lanes: that of ranks on the smallest host. Lane j of a host is its j-th rank;
/// further ranks have no lane.
std::size_t lane_count(const comm::Communicator& comm);

/// This rank's lane, if it has one.
std::optional<std::size_t> lane_of_this_rank(const comm::Communicator& comm);

/// The ranks of one lane, one rank per host in the order of hosts. Group::share is such that the
/// mean is over all ranks of the job. @pre this rank is in the lane
Group lane_group(const comm::Communicator& comm, std::size_t lane);

/// Assigns every fusion bucket to the lanes, [bucket][lane]. The lane of a value depends on its
/// place in the model and on the compressor, not on where fusion buckets are cut.
std::vector<std::vector<LaneSegments>> deal_lanes(std::span<const FusionBucket> plan,
                                                  const codec::Compressor& compressor,
                                                  std::size_t lanes);

/// The bucket of a lane's ranges when they are placed one after the other, from 0 on.
FusionBucket packed_bucket(const FusionBucket& bucket, const LaneSegments& lane);

}  // namespace eqt::collective
