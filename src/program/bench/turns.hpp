// SPDX-License-Identifier: Apache-2.0
// Times several pieces of work in turn, so that whatever else changes the machine's speed changes
// that of all of them.

#pragma once

#include <functional>
#include <span>
#include <vector>

namespace eqt::bench {

/// Medians of the seconds of a call, by the processor time of this thread. In every turn each work
/// is called for a millisecond (less where `seconds` is little), one work after the other.
/// @param seconds  for each work; at least three turns are taken
std::vector<double> median_seconds_in_turn(std::span<const std::function<void()>> works,
                                           double seconds);

}  // namespace eqt::bench
