// SPDX-License-Identifier: Apache-2.0
#include "collective/segment_owners.hpp"

#include <algorithm>

namespace eqt::collective {
namespace {

void deal_segment(const codec::Segment& whole, std::size_t length, LeastLoaded& loads,
                  DealtSegments& dealt) {
  for (std::size_t s = (whole.count + length - 1) / length; s-- > 0;) {
    codec::Segment segment = whole;
    segment.first_index += s * length;
    segment.begin += s * length;
    segment.count = std::min(length, whole.count - s * length);
    dealt[loads.give(segment.count)].push_back(segment);
  }
}

}  // namespace

std::vector<DealtSegments> deal_segments(std::span<const pipeline::FusionBucket> plan,
                                         const codec::Compressor& compressor, std::size_t ranks) {
  std::vector<DealtSegments> deals;
  deals.reserve(plan.size());
  LeastLoaded loads(ranks);  // of the whole model
  // The plan cuts at multiples of the same length, so a cut is always between two segments.
  const std::size_t length = pipeline::segment_length(compressor);
  for (const pipeline::FusionBucket& bucket : plan) {
    DealtSegments dealt(ranks);
    for (std::size_t s = bucket.segments.size(); s-- > 0;) {
      deal_segment(bucket.segments[s], length, loads, dealt);
    }
    for (auto& segments : dealt) std::reverse(segments.begin(), segments.end());
    deals.push_back(std::move(dealt));
  }
  return deals;
}

namespace {

std::size_t part_count(const codec::Segment& segment, std::size_t ranks) {
  if (segment.count == 0) return 0;
  if (!segment.compressed) return (segment.count + kRawPart - 1) / kRawPart;
  return std::clamp<std::size_t>(segment.count / kMinPart, 1, ranks);
}

OwnedSegment assign_segment(const codec::Segment& segment, LeastLoaded& loads,
                            std::vector<std::size_t>& sums_of) {
  OwnedSegment owned;
  owned.whole = segment;
  owned.owners.resize(part_count(segment, loads.receivers()));
  owned.sums_from.resize(owned.owners.size());
  if (!segment.compressed) {
    // It may be one part of a longer one, whose later ranges are assigned first.
    for (std::size_t p = owned.owners.size(); p-- > 0;)
      owned.owners[p] = loads.give(std::min(kRawPart, segment.count - p * kRawPart));
    return owned;
  }
  if (owned.owners.empty()) return owned;
  owned.deal = codec::Deal(segment.count, owned.owners.size(), segment.slice);
  for (std::size_t p = 0; p < owned.owners.size(); ++p) {
    owned.owners[p] = loads.give(owned.deal.size_of(p));
    std::size_t& sums = sums_of[owned.owners[p]];
    owned.sums_from[p] = sums;
    sums += owned.deal.size_of(p);
  }
  return owned;
}

codec::Segment segment_of(const OwnedSegment& owned, std::size_t p) {
  codec::Segment part = owned.whole;
  if (owned.whole.compressed) {
    part.begin = owned.sums_from[p];
    part.count = owned.deal.size_of(p);
  } else {
    part.first_index += p * kRawPart;
    part.begin += p * kRawPart;
    part.count = std::min(kRawPart, owned.whole.count - p * kRawPart);
  }
  return part;
}

}  // namespace

std::vector<SegmentOwners> assign_owners(std::span<const pipeline::FusionBucket> plan,
                                         std::size_t ranks, std::vector<std::size_t>& sums_of) {
  std::vector<SegmentOwners> all;
  all.reserve(plan.size());
  sums_of.assign(ranks, 0);
  LeastLoaded loads(ranks);
  for (const pipeline::FusionBucket& bucket : plan) {
    SegmentOwners& owners = all.emplace_back();
    for (std::size_t s = bucket.segments.size(); s-- > 0;) {
      owners.segments.push_back(assign_segment(bucket.segments[s], loads, sums_of));
    }
    std::reverse(owners.segments.begin(), owners.segments.end());
    owners.parts_of.resize(ranks);
    owners.segments_of.resize(ranks);
    for (std::size_t c = 0; c < owners.segments.size(); ++c) {
      const OwnedSegment& owned = owners.segments[c];
      for (std::size_t p = 0; p < owned.owners.size(); ++p) {
        owners.parts_of[owned.owners[p]].push_back({c, p});
        owners.segments_of[owned.owners[p]].push_back(segment_of(owned, p));
      }
    }
  }
  return all;
}

std::vector<SliceRange> places_of_sums(std::span<const SegmentOwners> owners, std::size_t rank,
                                       std::size_t sums) {
  std::vector<SliceRange> places(sums);
  for (const SegmentOwners& bucket : owners) {
    for (const SegmentPart& own : bucket.parts_of[rank]) {
      const OwnedSegment& owned = bucket.segments[own.segment];
      if (!owned.whole.compressed) continue;
      for (std::size_t at = 0; at < owned.deal.size_of(own.part); ++at) {
        places[owned.sums_from[own.part] + at] = {
            owned.whole.slice, owned.whole.first_index + owned.deal.index({own.part, at}), 1};
      }
    }
  }
  return places;
}

}  // namespace eqt::collective
