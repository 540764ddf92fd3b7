// SPDX-License-Identifier: Apache-2.0
// The values of largest magnitude: exactly k, about k, or all above a threshold; and the magnitude
// of a given rank, exactly among few values, approximately among many.
//
// Method   1. a bound slightly below the k-th largest magnitude, from a sample;
//          2. one pass over memory keeps index and value of those that are at least the bound, and
//             finds the largest magnitude (which shows NaN and infinity);
//          3. radix selection among the values kept. If there are fewer than k, a histogram of all
//             values gives a certain bound, and step 2 is repeated.
// Cost     one pass over the values, and some nanoseconds for each value kept

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Indices, ascending, and the values there. In kSelectedIndices and kSelectedValues (scratch.hpp).
struct Selection {
  std::span<const std::uint32_t> indices;
  std::span<const float> values;
};

/// The k values of largest magnitude; among equal magnitudes the lowest indices. Empty if a value
/// is NaN or infinite.
/// @pre 1 <= k <= values.size() < 2^32
std::optional<Selection> largest_magnitudes(std::span<const float> values, std::size_t k,
                                            Workspace& workspace);

/// The largest magnitudes down to a bin (1/1024 of an octave) that contains the k-th largest: k ...
/// k + k/20 values, or exactly k if the bin has more, and never zeros. Empty if a value is NaN or
/// infinite.
/// @pre 1 <= k <= values.size() < 2^32
std::optional<Selection> about_largest(std::span<const float> values, std::size_t k,
                                       Workspace& workspace);

/// All values of magnitude above `threshold`, but only the `cap` largest if there are more. Empty
/// if a value is NaN or infinite.
/// @pre threshold >= 0 and finite, cap >= 1, values.size() < 2^32
std::optional<Selection> above_threshold(std::span<const float> values, float threshold,
                                         std::size_t cap, Workspace& workspace);

}  // namespace eqt::codec
