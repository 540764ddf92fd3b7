// SPDX-License-Identifier: Apache-2.0
#include "metrics/timeline.hpp"

namespace eqt::metrics {
namespace {

constexpr ActivityRow kActivities[] = {
    {Activity::compute, "compute", "computing"},  {Activity::wait, "wait", "waiting"},
    {Activity::messages, "messages", "encoding"}, {Activity::transfer, "transfer", "in transit"},
    {Activity::update, "update", "update"},       {Activity::data, "data", "loading"}};

}  // namespace

std::span<const ActivityRow> activities() { return kActivities; }

std::optional<Activity> activity_named(std::string_view name) {
  for (const ActivityRow& row : kActivities)
    if (row.name == name) return row.value;
  return {};
}

}  // namespace eqt::metrics
