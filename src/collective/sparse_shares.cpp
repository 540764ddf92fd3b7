// SPDX-License-Identifier: Apache-2.0
#include "collective/sparse_shares.hpp"

#include <algorithm>

namespace eqt::collective {
namespace {

std::size_t pieces_of(const codec::Segment& segment, std::size_t ranks) {
  if (segment.count == 0) return 0;
  if (!segment.compressed) return (segment.count + kRawRun - 1) / kRawRun;
  return std::clamp<std::size_t>(segment.count / kLeastPart, 1, ranks);
}

SparseCut cut_segment(const codec::Segment& segment, std::size_t& turn,
                      std::vector<std::size_t>& sums_of) {
  const std::size_t ranks = sums_of.size();
  SparseCut cut;
  cut.whole = segment;
  cut.owners.resize(pieces_of(segment, ranks));
  cut.sums_from.resize(cut.owners.size());
  for (std::size_t& owner : cut.owners) owner = turn++ % ranks;
  // A raw segment may be one piece of a longer one, of which later ranges are dealt first.
  if (!segment.compressed) std::reverse(cut.owners.begin(), cut.owners.end());
  if (!segment.compressed || cut.owners.empty()) return cut;
  cut.deal = codec::Deal(segment.count, cut.owners.size(), segment.slice);
  for (std::size_t p = 0; p < cut.owners.size(); ++p) {
    std::size_t& sums = sums_of[cut.owners[p]];
    cut.sums_from[p] = sums;
    sums += cut.deal.size_of(p);
  }
  return cut;
}

codec::Segment segment_of(const SparseCut& cut, std::size_t p) {
  codec::Segment piece = cut.whole;
  if (cut.whole.compressed) {
    piece.begin = cut.sums_from[p];
    piece.count = cut.deal.size_of(p);
  } else {
    piece.first_index += p * kRawRun;
    piece.begin += p * kRawRun;
    piece.count = std::min(kRawRun, cut.whole.count - p * kRawRun);
  }
  return piece;
}

}  // namespace

std::vector<SparseShares> deal_shares(std::span<const pipeline::FusionBucket> plan,
                                      std::size_t ranks, std::vector<std::size_t>& sums_of) {
  std::vector<SparseShares> all;
  all.reserve(plan.size());
  sums_of.assign(ranks, 0);
  std::size_t turn = 0;
  for (const pipeline::FusionBucket& bucket : plan) {
    SparseShares& shares = all.emplace_back();
    for (std::size_t s = bucket.segments.size(); s-- > 0;) {
      shares.cuts.push_back(cut_segment(bucket.segments[s], turn, sums_of));
    }
    std::reverse(shares.cuts.begin(), shares.cuts.end());
    shares.pieces_of.resize(ranks);
    shares.segments_of.resize(ranks);
    for (std::size_t c = 0; c < shares.cuts.size(); ++c) {
      const SparseCut& cut = shares.cuts[c];
      for (std::size_t p = 0; p < cut.owners.size(); ++p) {
        shares.pieces_of[cut.owners[p]].push_back({c, p});
        shares.segments_of[cut.owners[p]].push_back(segment_of(cut, p));
      }
    }
  }
  return all;
}

}  // namespace eqt::collective
