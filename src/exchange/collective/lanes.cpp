// SPDX-License-Identifier: Apache-2.0
#include "collective/lanes.hpp"

#include <algorithm>

#include "collective/segment_owners.hpp"
#include "core/error.hpp"

namespace eqt::collective {
namespace {

/// Assigns each value to a lane, from the last value to the first, the order in which buckets are
/// sent.
class Dealer {
 public:
  Dealer(const codec::Compressor& compressor, std::size_t lanes)
      : whole_(pipeline::needs_whole_slices(compressor)),
        segment_length_(whole_ ? pipeline::kMinSegment : pipeline::segment_length(compressor)),
        loads_(lanes) {}

  std::vector<LaneSegments> deal(const FusionBucket& bucket) {
    std::vector<LaneSegments> lanes(loads_.receivers());
    for (std::size_t s = bucket.segments.size(); s-- > 0;) {
      const codec::Segment& segment = bucket.segments[s];
      if (whole_ && segment.compressed) {
        give(segment, lanes[loads_.give(segment.count)]);
      } else {
        deal_segments(segment, lanes);
      }
    }
    for (LaneSegments& lane : lanes) std::reverse(lane.segments.begin(), lane.segments.end());
    return lanes;
  }

 private:
  /// Neighbouring ranges of the model go to neighbouring lanes.
  void deal_segments(const codec::Segment& segment, std::vector<LaneSegments>& lanes) const {
    const std::size_t tensor = (segment.begin - segment.first_index) / segment_length_;
    std::size_t end = segment.first_index + segment.count;
    while (end > segment.first_index) {
      const std::size_t number = (end - 1) / segment_length_;
      const std::size_t begin =
          std::max<std::size_t>(number * segment_length_, segment.first_index);
      codec::Segment part = segment;
      part.begin += begin - segment.first_index;
      part.first_index = begin;
      part.count = end - begin;
      give(part, lanes[(tensor + number) % lanes.size()]);
      end = begin;
    }
  }

  /// Merges it with the range after it if possible.
  static void give(const codec::Segment& part, LaneSegments& lane) {
    lane.count += part.count;
    if (!lane.segments.empty()) {
      codec::Segment& behind = lane.segments.back();
      if (behind.slice == part.slice && behind.begin == part.begin + part.count) {
        const std::size_t count = behind.count + part.count;
        behind = part;
        behind.count = count;
        return;
      }
    }
    lane.segments.push_back(part);
  }

  const bool whole_;
  const std::size_t segment_length_;
  LeastLoaded loads_;  // of whole tensors
};

/// The ranks of each host, ascending.
std::vector<std::vector<Rank>> ranks_by_host(const comm::Communicator& comm) {
  std::vector<std::vector<Rank>> hosts(static_cast<std::size_t>(comm.host_count()));
  for (Rank r = 0; r < comm.size(); ++r) {
    hosts[static_cast<std::size_t>(comm.host_of(r))].push_back(r);
  }
  return hosts;
}

}  // namespace

std::size_t lane_count(const comm::Communicator& comm) {
  std::size_t least = static_cast<std::size_t>(comm.size());
  for (const auto& host : ranks_by_host(comm)) least = std::min(least, host.size());
  return least;
}

std::optional<std::size_t> lane_of_this_rank(const comm::Communicator& comm) {
  const auto host_ranks = comm.ranks_on_this_host();
  const auto index =
      std::lower_bound(host_ranks.begin(), host_ranks.end(), comm.rank()) - host_ranks.begin();
  const auto lane = static_cast<std::size_t>(index);
  if (lane >= lane_count(comm)) return {};
  return lane;
}

Group lane_group(const comm::Communicator& comm, std::size_t lane) {
  Group group{.ranks = {},
              .me = static_cast<std::size_t>(comm.host_of(comm.rank())),
              .share = 1.0f / static_cast<float>(comm.size()),
              .of_host_sums = true};
  for (const auto& host : ranks_by_host(comm)) group.ranks.push_back(host[lane]);
  return group;
}

std::vector<std::vector<LaneSegments>> deal_lanes(std::span<const FusionBucket> plan,
                                                  const codec::Compressor& compressor,
                                                  std::size_t lanes) {
  Dealer dealer(compressor, lanes);
  std::vector<std::vector<LaneSegments>> dealt;
  for (const FusionBucket& bucket : plan) dealt.push_back(dealer.deal(bucket));
  return dealt;
}

FusionBucket packed_bucket(const FusionBucket& bucket, const LaneSegments& lane) {
  FusionBucket packed{.index = bucket.index, .begin = 0, .end = 0, .segments = lane.segments};
  for (codec::Segment& part : packed.segments) {
    part.begin = packed.end;
    packed.end += part.count;
  }
  return packed;
}

}  // namespace eqt::collective
