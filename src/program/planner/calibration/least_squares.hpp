// SPDX-License-Identifier: Apache-2.0
// Least squares for three unknowns, none of which is below zero. Private to the room.

#pragma once

#include <array>
#include <optional>
#include <span>

namespace eqt::planner {

/// seconds = sum of counts[i] * c[i].
struct Equation {
  std::array<double, 3> counts{};
  double seconds = 0;
};

/// The c >= 0 with the least sum of squares of (counts * c - seconds) / weight; nothing if the
/// equations do not determine them. Tries every set of unknowns that are 0.
/// @param weights above 0, by equation
std::optional<std::array<double, 3>> least_squares(std::span<const Equation> equations,
                                                   std::span<const double> weights);

}  // namespace eqt::planner
