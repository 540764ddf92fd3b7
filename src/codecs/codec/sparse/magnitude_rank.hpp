// SPDX-License-Identifier: Apache-2.0
// Finds the magnitude of a given rank: exactly among few values, approximately among many.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/workspace.hpp"

namespace eqt::codec {

/// A range of magnitude bits, [lower, lower + width), that contains the value of the given rank.
struct RankBin {
  std::uint32_t lower = 0;
  std::size_t above = 0;   // values above the range
  std::size_t inside = 0;  // values in the range
};

/// The range of at most `width` (a power of two) magnitudes that contains the rank-th largest of
/// `values`; with width 1 that magnitude. Uses kBinValues (scratch.hpp).
/// @param lowest, largest  magnitude bits that enclose those of all values
/// @pre 1 <= rank <= values.size()
RankBin rank_bin(std::span<const float> values, std::size_t rank, std::uint32_t lowest,
                 std::uint32_t largest, std::uint32_t width, Workspace& workspace);

/// A bound, as magnitude bits, that slightly more than k values reach, estimated from a sample of
/// at most 65536 values whose positions depend only on the count. Not guaranteed: the caller must
/// count. Uses kBinValues and kSample.
std::uint32_t sampled_bound(std::span<const float> values, std::size_t k, Workspace& workspace);

/// A bound, as magnitude bits, that at least k values reach, at most an eighth of an octave below
/// the k-th largest. Takes a pass over all values.
std::uint32_t counted_bound(std::span<const float> values, std::size_t k);

}  // namespace eqt::codec
