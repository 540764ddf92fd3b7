// SPDX-License-Identifier: Apache-2.0
// Which magnitude has a given rank: among all of a few values, and about which among many.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/workspace.hpp"

namespace eqt::codec {

/// A run of magnitude bits [lower, lower + width) that holds the value of the rank asked for.
struct RankBin {
  std::uint32_t lower = 0;
  std::size_t above = 0;   // values beyond the run
  std::size_t inside = 0;  // values in the run
};

/// The run of at most `width` (a power of two) magnitudes that holds the rank-th largest of
/// `values`; with width 1 that magnitude itself. Uses kBinValues (scratch.hpp).
/// @param lowest, largest  magnitude bits that enclose those of all values
/// @pre 1 <= rank <= values.size()
RankBin rank_bin(std::span<const float> values, std::size_t rank, std::uint32_t lowest,
                 std::uint32_t largest, std::uint32_t width, Workspace& workspace);

/// Magnitude bits that about k values reach, rather more than fewer, from a sample of at most 65536
/// values whose places depend on the count alone. Nothing is promised: a caller counts. Uses
/// kBinValues and kSample.
std::uint32_t sampled_bound(std::span<const float> values, std::size_t k, Workspace& workspace);

/// Magnitude bits that at least k values reach, and no more than an eighth of an octave below the
/// k-th largest: a pass over all values.
std::uint32_t counted_bound(std::span<const float> values, std::size_t k);

}  // namespace eqt::codec
