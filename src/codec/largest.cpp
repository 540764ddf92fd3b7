// The k values of largest magnitude by radix selection, without sorting.
//
// Symbols  m the bits of |value|: 31 bits whose order as integers is that of the magnitudes
// Method   1. a histogram of m's upper 11 bits, eight bins an octave, gives the bin in which the
//             k-th largest lies;
//          2. one vector pass keeps the indices of that bin and those above, in order;
//          3. two histograms over the kept ones, of 10 bits each, fix the k-th largest exactly;
//          4. a pass over the kept ones drops those below, and the surplus of those equal to it.
// Cost     two passes over the values; steps 3 and 4 touch about k

#include "codec/largest.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/largest.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Writes the indices of values whose magnitude bits are at least `bound`, ascending. May write one
/// vector past the last of them.
/// @return their number
std::size_t keep_at_least(const float* HWY_RESTRICT values, std::size_t count, std::int32_t bound,
                          std::uint32_t* HWY_RESTRICT indices) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const std::size_t lanes = hn::Lanes(df);
  const auto magnitude_bits = hn::Set(di, 0x7FFFFFFF);
  const auto below = hn::Set(di, bound - 1);
  const auto lane = hn::Iota(du, 0);
  const auto magnitude = [&](std::size_t i) HWY_ATTR {
    return hn::And(hn::BitCast(di, hn::LoadU(df, values + i)), magnitude_bits);
  };
  std::size_t kept = 0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    // Few values are kept, so most groups of four vectors hold none.
    const auto largest = hn::Max(hn::Max(magnitude(i), magnitude(i + lanes)),
                                 hn::Max(magnitude(i + 2 * lanes), magnitude(i + 3 * lanes)));
    if (hn::AllFalse(di, hn::Gt(largest, below))) continue;
    for (std::size_t j = i; j < i + 4 * lanes; j += lanes) {
      const auto keep = hn::RebindMask(du, hn::Gt(magnitude(j), below));
      const auto index = hn::Add(lane, hn::Set(du, static_cast<std::uint32_t>(j)));
      // Not CompressStore, whose instruction is microcoded on some processors.
      hn::StoreU(hn::Compress(index, keep), du, indices + kept);
      kept += hn::CountTrue(du, keep);
    }
  }
  for (; i < count; ++i) {
    std::int32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    if ((bits & 0x7FFFFFFF) >= bound) indices[kept++] = static_cast<std::uint32_t>(i);
  }
  return kept;
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(keep_at_least);

constexpr int kUpperShift = 20;  // 31 bits = 11 + 10 + 10
constexpr int kMiddleShift = 10;
constexpr std::size_t kUpperBins = 2048;
constexpr std::size_t kLowerBins = 1024;
constexpr std::size_t kFirstInfiniteBin = 0x7F800000 >> kUpperShift;
constexpr std::size_t kSlack = 64;  // floats in the widest vector that keep_at_least may overrun by

std::uint32_t magnitude_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7FFFFFFF;
}

struct Bin {
  std::uint32_t index;
  std::size_t above;  // members of higher bins
};

/// The bin that holds the rank-th largest member, rank >= 1.
Bin find_bin(std::span<const std::uint32_t> bins, std::size_t rank) {
  std::size_t above = 0;
  std::size_t b = bins.size() - 1;
  while (above + bins[b] < rank) above += bins[b--];
  return {static_cast<std::uint32_t>(b), above};
}

/// Two histograms that take turns: neighbours often share a bin, and an increment that waits for
/// the one before it would cost several cycles.
std::array<std::uint32_t, kUpperBins> upper_histogram(std::span<const float> values) {
  std::array<std::uint32_t, kUpperBins> even{};
  std::array<std::uint32_t, kUpperBins> odd{};
  std::size_t i = 0;
  for (; i + 2 <= values.size(); i += 2) {
    ++even[magnitude_bits(values[i]) >> kUpperShift];
    ++odd[magnitude_bits(values[i + 1]) >> kUpperShift];
  }
  if (i < values.size()) ++even[magnitude_bits(values[i]) >> kUpperShift];
  for (std::size_t b = 0; b < kUpperBins; ++b) even[b] += odd[b];
  return even;
}

/// Among the kept values whose bits above `shift + 10` equal `prefix`: the 10 bits from `shift` on
/// of the rank-th largest.
Bin refine(std::span<const float> values, std::span<const std::uint32_t> kept, std::uint32_t prefix,
           int shift, std::size_t rank) {
  std::array<std::uint32_t, kLowerBins> bins{};
  for (const std::uint32_t index : kept) {
    const std::uint32_t bits = magnitude_bits(values[index]);
    if (bits >> (shift + 10) == prefix) ++bins[(bits >> shift) & (kLowerBins - 1)];
  }
  return find_bin(bins, rank);
}

/// Keeps magnitudes above `threshold` and the first `ties` of those equal to it, in place.
std::size_t drop_below(std::span<const float> values, std::span<std::uint32_t> kept,
                       std::uint32_t threshold, std::size_t ties) {
  std::size_t n = 0;
  for (const std::uint32_t index : kept) {
    const std::uint32_t bits = magnitude_bits(values[index]);
    const bool tie = bits == threshold && ties > 0;
    kept[n] = index;
    n += static_cast<std::size_t>(bits > threshold || tie);
    ties -= static_cast<std::size_t>(tie);
  }
  return n;
}

}  // namespace

std::span<const std::uint32_t> largest_magnitudes(std::span<const float> values, std::size_t k,
                                                  Workspace& workspace) {
  EQT_CHECK(k >= 1 && k <= values.size() && values.size() <= UINT32_MAX, "k {} of {} values", k,
            values.size());
  const auto bins = upper_histogram(values);
  for (std::size_t b = kFirstInfiniteBin; b < kUpperBins; ++b) {
    if (bins[b] != 0) return {};
  }
  const Bin upper = find_bin(bins, k);

  // Room for all, not for these: how many share the bin changes from step to step, and no step
  // after the first may allocate. Pages that are never touched cost nothing.
  const auto memory = workspace.array<std::uint32_t>(0, values.size() + kSlack);
  const auto bound = static_cast<std::int32_t>(upper.index << kUpperShift);
  const auto kept = memory.first(
      HWY_DYNAMIC_DISPATCH(keep_at_least)(values.data(), values.size(), bound, memory.data()));

  std::size_t rank = k - upper.above;
  const Bin middle = refine(values, kept, upper.index, kMiddleShift, rank);
  rank -= middle.above;
  const std::uint32_t prefix = upper.index << (kUpperShift - kMiddleShift) | middle.index;
  const Bin lower = refine(values, kept, prefix, 0, rank);
  const std::uint32_t threshold = prefix << kMiddleShift | lower.index;
  const std::size_t found = drop_below(values, kept, threshold, rank - lower.above);
  EQT_DCHECK(found == k, "{} selected", found);
  return kept.first(found);
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
