// SPDX-License-Identifier: Apache-2.0
// What handling a message, a byte and an addition costs, from the times of means over ranks.
// Private to the room.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/calibration/calibrate.hpp"

namespace eqt::planner {

struct CommunicationFit {
  collective::CommunicationCosts costs;
  std::size_t lines = 0;    // used
  double median_error = 0;  // |predicted - measured| / measured
};

/// Fits the costs to the lines whose collective has rounds of its own, whose messages stay on one
/// host (so that no link is in the times) and whose compressor's speeds are known. A mean takes the
/// seconds of encoding, decoding and adding, and c_m a message and c_b a byte on both sides, with
/// the counts that a plan would use; the squares are of relative errors.
/// @param notes gets what was left out, and why
std::optional<CommunicationFit> fit_communication(const std::vector<CollectiveLine>& lines,
                                                  CodecSpeeds codecs,
                                                  std::vector<std::string>& notes);

/// An equation of three unknowns: seconds = sum of counts[i] * c[i].
struct Equation {
  std::array<double, 3> counts{};
  double seconds = 0;
};

/// Returns the c >= 0 with the least sum of squares of (counts * c - seconds) / weight; nothing if
/// the equations do not determine them. Tries every set of unknowns that are 0.
/// @param weights above 0, by equation
std::optional<std::array<double, 3>> least_squares(std::span<const Equation> equations,
                                                   std::span<const double> weights);

}  // namespace eqt::planner
