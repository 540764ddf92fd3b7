// SPDX-License-Identifier: Apache-2.0
#include "config/emulation_checks.hpp"

#include <algorithm>
#include <variant>
#include <vector>

#include "core/error.hpp"

namespace eqt::config {
namespace {

// Below, a step has so many stalls that a slower board says it better.
constexpr double kShortestDistance = 0.01;  // [steps]

std::vector<double> numbers_of(const PerRank& value) {
  if (const double* const same = std::get_if<double>(&value)) return {*same};
  if (const auto* const list = std::get_if<std::vector<double>>(&value)) return *list;
  return {};
}

bool has_positive(const PerRank& value) {
  return std::ranges::any_of(numbers_of(value), [](double x) { return x > 0; });
}

}  // namespace

void check_board_speed(const RunConfig& config, const std::string& origin) {
  const RunConfig::Train& train = config.train;
  const auto& jitter = train.emulate_jitter;
  if (!train.is_emulated() &&
      (jitter != RunConfig::Train::EmulateJitter{} || !train.emulate_changes.empty()))
    fail(Kind::usage,
         "{}: expected train.emulate_jitter and train.emulate_changes only with "
         "train.emulate_compute, whose time they change, found it null; set it or leave them out",
         origin);
  const bool stalls = has_positive(jitter.stall_every);
  if (stalls != (jitter.stall_seconds > 0))
    fail(
        Kind::usage,
        "{}: expected train.emulate_jitter.stall_every and .stall_seconds both above 0 or neither, "
        "found one; set the other, too",
        origin);
  for (const double distance : numbers_of(jitter.stall_every))
    if (distance > 0 && distance < kShortestDistance)
      fail(Kind::usage,
           "{}: expected 0 or at least {} steps in train.emulate_jitter.stall_every, found {}; "
           "raise train.emulate_compute instead",
           origin, kShortestDistance, distance);
}

}  // namespace eqt::config
