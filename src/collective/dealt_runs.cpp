// SPDX-License-Identifier: Apache-2.0
#include "collective/dealt_runs.hpp"

#include <algorithm>

namespace eqt::collective {
namespace {

/// @param turn number of the next run, over the whole model
void deal_segment(const codec::Segment& segment, std::size_t run, std::size_t& turn,
                  DealtRuns& runs) {
  for (std::size_t r = (segment.count + run - 1) / run; r-- > 0;) {
    codec::Segment piece = segment;
    piece.first_index += r * run;
    piece.begin += r * run;
    piece.count = std::min(run, segment.count - r * run);
    runs[turn++ % runs.size()].push_back(piece);
  }
}

}  // namespace

std::vector<DealtRuns> deal_runs(std::span<const pipeline::FusionBucket> plan,
                                 const codec::Compressor& compressor, std::size_t ranks) {
  std::vector<DealtRuns> deals;
  deals.reserve(plan.size());
  std::size_t turn = 0;
  // The length at which the plan cuts, so that a cut falls between two runs.
  const std::size_t run = pipeline::run_length(compressor);
  for (const pipeline::FusionBucket& bucket : plan) {
    DealtRuns runs(ranks);
    for (std::size_t s = bucket.segments.size(); s-- > 0;) {
      deal_segment(bucket.segments[s], run, turn, runs);
    }
    for (auto& segments : runs) std::reverse(segments.begin(), segments.end());
    deals.push_back(std::move(runs));
  }
  return deals;
}

}  // namespace eqt::collective
