// SPDX-License-Identifier: Apache-2.0
#include "collective/dealt_segments.hpp"

#include <algorithm>

#include "collective/least_loaded.hpp"

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

}  // namespace eqt::collective
