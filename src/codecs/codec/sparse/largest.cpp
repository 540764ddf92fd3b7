// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/largest.hpp"

#include <algorithm>

#include "codec/finite.hpp"
#include "codec/sparse/compact.hpp"
#include "codec/sparse/magnitude_rank.hpp"
#include "codec/sparse/scratch.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

/// Values that are at least a bound.
struct Candidates {
  std::span<std::uint32_t> indices;
  std::span<float> values;
  std::uint32_t bound = 0;
  std::uint32_t largest = 0;

  bool finite() const { return largest <= kLargestFiniteBits; }
};

Candidates collect(std::span<const float> values, std::uint32_t bound, Workspace& workspace) {
  EQT_CHECK(values.size() <= UINT32_MAX, "{} values", values.size());
  // Room for all values: the number of candidates changes from step to step, and no step after the
  // first may allocate. Pages that are never used take no memory.
  const auto indices = workspace.array(kSelectedIndices, values.size() + kCompactSlack);
  const auto kept = workspace.array(kSelectedValues, values.size() + kCompactSlack);
  workspace.array(kBinValues, values.size());
  const Compacted found = compact_at_least(values, bound, indices.data(), kept.data());
  return {indices.first(found.count), kept.first(found.count), bound, found.largest};
}

/// At least k of the largest, unless a value is not finite.
Candidates collect_largest(std::span<const float> values, std::size_t k, Workspace& workspace) {
  EQT_CHECK(k >= 1 && k <= values.size(), "k {} of {} values", k, values.size());
  const Candidates sampled = collect(values, sampled_bound(values, k, workspace), workspace);
  if (sampled.values.size() >= k || !sampled.finite()) return sampled;
  return collect(values, counted_bound(values, k), workspace);
}

Selection keep_reaching(const Candidates& from, std::uint32_t bound) {
  const std::size_t n = keep_at_least(from.values, from.indices, bound);
  return {from.indices.first(n), from.values.first(n)};
}

/// Keeps magnitudes above `threshold` and the first `ties` of those equal to it, in place.
Selection keep_first_ties(const Candidates& from, std::uint32_t threshold, std::size_t ties) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(from.values[i]);
    const bool tie = bits == threshold && ties > 0;
    from.indices[n] = from.indices[i];
    from.values[n] = from.values[i];
    n += static_cast<std::size_t>(bits > threshold || tie);
    ties -= static_cast<std::size_t>(tie);
  }
  return {from.indices.first(n), from.values.first(n)};
}

/// The exact magnitude of rank k: a bin of width 1.
RankBin exact_rank(const Candidates& from, std::size_t k, Workspace& workspace) {
  return rank_bin(from.values, k, from.bound, from.largest, 1, workspace);
}

Selection keep_largest(const Candidates& from, std::size_t k, const RankBin& rank) {
  if (rank.above + rank.inside == k) return keep_reaching(from, rank.lower);
  return keep_first_ties(from, rank.lower, k - rank.above);
}

}  // namespace

std::optional<Selection> largest_magnitudes(std::span<const float> values, std::size_t k,
                                            Workspace& workspace) {
  const Candidates candidates = collect_largest(values, k, workspace);
  if (!candidates.finite()) return std::nullopt;
  return keep_largest(candidates, k, exact_rank(candidates, k, workspace));
}

std::optional<Selection> about_largest(std::span<const float> values, std::size_t k,
                                       Workspace& workspace) {
  constexpr std::uint32_t kWidth = 1 << 13;  // 1/1024 of an octave
  const Candidates candidates = collect_largest(values, k, workspace);
  if (!candidates.finite()) return std::nullopt;
  const RankBin bin =
      rank_bin(candidates.values, k, candidates.bound, candidates.largest, kWidth, workspace);
  if (bin.above + bin.inside <= k + k / 20) {
    return keep_reaching(candidates, std::max(bin.lower, 1u));
  }
  const RankBin exact = exact_rank(candidates, k, workspace);
  if (exact.lower == 0) return keep_reaching(candidates, 1);
  return keep_largest(candidates, k, exact);
}

std::optional<Selection> above_threshold(std::span<const float> values, float threshold,
                                         std::size_t cap, Workspace& workspace) {
  const Candidates candidates = collect(values, magnitude_bits(threshold) + 1, workspace);
  if (!candidates.finite()) return std::nullopt;
  if (candidates.values.size() <= cap) return Selection{candidates.indices, candidates.values};
  return keep_largest(candidates, cap, exact_rank(candidates, cap, workspace));
}

}  // namespace eqt::codec
