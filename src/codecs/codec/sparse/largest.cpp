// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/largest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codec/finite.hpp"
#include "codec/sparse/compact.hpp"
#include "codec/sparse/scratch.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::codec {
namespace {

constexpr int kMaxBinBits = 11;
constexpr std::size_t kMaxBins = std::size_t{1} << kMaxBinBits;
constexpr int kUpperShift = 20;  // 2048 bins of 31 bits: eight per octave

constexpr std::size_t kUnsampled = 4096;       // below this, all values are candidates
constexpr std::size_t kLargestSample = 65536;  // [values]
constexpr std::size_t kSampledRange = 16;      // neighbours: a cache line

using Histogram = std::array<std::uint32_t, kMaxBins>;

/// The bin that holds the rank-th largest member, rank >= 1.
struct Place {
  std::size_t bin;
  std::size_t above;  // members of higher bins
};

Place find_place(std::span<const std::uint32_t> bins, std::size_t rank) {
  std::size_t above = 0;
  std::size_t b = bins.size() - 1;
  while (above + bins[b] < rank) above += bins[b--];
  return {b, above};
}

/// Histogram of (magnitude - lowest) >> shift. It alternates between two histograms: neighbours
/// often are in the same bin, and successive increments of one counter wait for each other.
void count_bins(std::span<const float> values, std::uint32_t lowest, int shift,
                std::span<std::uint32_t> even, std::span<std::uint32_t> odd) {
  std::fill(even.begin(), even.end(), 0u);
  std::fill(odd.begin(), odd.end(), 0u);
  const auto bin = [&](std::size_t i) { return (magnitude_bits(values[i]) - lowest) >> shift; };
  std::size_t i = 0;
  for (; i + 2 <= values.size(); i += 2) {
    ++even[bin(i)];
    ++odd[bin(i + 1)];
  }
  if (i < values.size()) ++even[bin(i)];
  for (std::size_t b = 0; b < even.size(); ++b) even[b] += odd[b];
}

/// Copies the values whose magnitude is in [lowest, lowest + 2^shift); `to` may be where they are.
std::size_t gather_bin(std::span<const float> values, std::uint32_t lowest, int shift, float* to) {
  std::size_t n = 0;
  for (const float value : values) {
    to[n] = value;
    n += static_cast<std::size_t>((magnitude_bits(value) - lowest) >> shift == 0);
  }
  return n;
}

/// The sample consists of short ranges, one per equal part of the values. The position of a range
/// in its part is a hash of its number, so periodic patterns do not affect the sample.
std::span<const float> take_sample(std::span<const float> values, Workspace& workspace) {
  const std::size_t wanted = std::clamp(values.size() / 64, kUnsampled, kLargestSample);
  const std::size_t ranges = wanted / kSampledRange;
  const std::size_t part = values.size() / ranges;
  const auto sample = workspace.array(kSample, ranges * kSampledRange);
  for (std::size_t r = 0; r < ranges; ++r) {
    const std::size_t begin = r * part + mix64(r) % (part - kSampledRange + 1);
    std::copy_n(values.data() + begin, kSampledRange, sample.data() + r * kSampledRange);
  }
  return sample;
}

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

RankBin rank_bin(std::span<const float> values, std::size_t rank, std::uint32_t lowest,
                 std::uint32_t largest, std::uint32_t width, Workspace& workspace) {
  EQT_CHECK(rank >= 1 && rank <= values.size(), "rank {} of {} values", rank, values.size());
  Histogram even;
  Histogram odd;
  const int finest = static_cast<int>(std::bit_width(width)) - 1;
  RankBin found{.lower = lowest};
  auto left = static_cast<int>(std::bit_width(largest - lowest));  // bits that are not yet known
  while (true) {
    const int bits =
        std::min({left, kMaxBinBits, static_cast<int>(std::bit_width(values.size())) + 2});
    const int shift = std::max(left - bits, std::min(finest, left));
    const std::size_t bins = std::size_t{1} << (left - shift);
    count_bins(values, found.lower, shift, std::span(even).first(bins), std::span(odd).first(bins));
    const Place place = find_place(std::span(even).first(bins), rank - found.above);
    found.lower += static_cast<std::uint32_t>(place.bin) << shift;
    found.above += place.above;
    found.inside = even[place.bin];
    if (shift <= finest) return found;
    // Room for all values, because no step after the first may allocate.
    float* to = workspace.array(kBinValues, values.size()).data();
    values = {to, gather_bin(values, found.lower, shift, to)};
    left = shift;
  }
}

std::uint32_t sampled_bound(std::span<const float> values, std::size_t k, Workspace& workspace) {
  if (values.size() <= kUnsampled) return 0;
  const auto sample = take_sample(values, workspace);
  const double expected = static_cast<double>(k) * static_cast<double>(sample.size()) /
                          static_cast<double>(values.size());
  // Five standard deviations of a binomial count, and a constant for small counts.
  const double rank = expected + 5 * std::sqrt(expected) + 8;
  if (rank >= static_cast<double>(sample.size())) return 0;
  constexpr std::uint32_t kWidth = 1 << 14;  // 1/512 of an octave
  return rank_bin(sample, static_cast<std::size_t>(rank), 0, 0x7FFFFFFF, kWidth, workspace).lower;
}

std::uint32_t counted_bound(std::span<const float> values, std::size_t k) {
  Histogram even;
  Histogram odd;
  count_bins(values, 0, kUpperShift, even, odd);
  return static_cast<std::uint32_t>(find_place(even, k).bin) << kUpperShift;
}

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
