// SPDX-License-Identifier: Apache-2.0
// timeline.jsonl: what every rank did when, in a few steps.

#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "metrics/records.hpp"

namespace eqt::metrics {

struct ActivityRow {
  Activity value;
  std::string_view name;   // in the file
  std::string_view about;  // for people
};

/// Every activity, in an order that gives neighbours very different colours.
std::span<const ActivityRow> activities();

std::optional<Activity> activity_named(std::string_view name);

}  // namespace eqt::metrics
