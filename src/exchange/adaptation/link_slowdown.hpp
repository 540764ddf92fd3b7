// SPDX-License-Identifier: Apache-2.0
// How much slower links are than they were, from what steps take.

#pragma once

#include <functional>

namespace eqt::adaptation {

/// The slowdown nearest to `present` with which a step would take as long as measured, within the
/// precision of the prediction: links that computing hides tell only that they are not slower.
/// A step that links have no part in tells nothing of them.
/// From 1 (what was measured alone is the best that a link can do) to 4096.
/// @param seconds of a step, never less with a greater slowdown
/// @param present what was found before
double link_slowdown(const std::function<double(double slowdown)>& seconds, double measured,
                     double present);

}  // namespace eqt::adaptation
