// SPDX-License-Identifier: Apache-2.0
// What runs would take on boards with links of several rates, as a sweep planned it.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "report/planned.hpp"
#include "report/quantities.hpp"

namespace eqt::report {

using Type = Column::Type;

std::set<double> planned_rates(const std::vector<Group>& groups) {
  std::set<double> rates;
  for (const Group& group : groups)
    for (const Run* run : group.runs)
      for (const auto& [rate, seconds] : run->planned_seconds)
        if (seconds) rates.insert(rate);
  return rates;
}

Figure planned_seconds(const Run& run, double megabits) {
  const auto found = run.planned_seconds.find(megabits);
  return found == run.planned_seconds.end() ? Figure() : found->second;
}

Column planned_column(double megabits) {
  return {fmt::format("plan_{:g}_seconds", megabits), fmt::format("at {:g} Mb/s [s]", megabits),
          Type::spread};
}

Table planned_table(const std::vector<Group>& groups) {
  Table table{"planned",
              "All steps of a run if each rank is a board on a link of its own",
              {{"run", "runs"}},
              {},
              {"Seconds by equant-train plan, without tests; \"-\" where it has no plan."}};
  const std::set<double> rates = planned_rates(groups);
  if (rates.empty()) return table;
  for (const Group& group : groups)
    if (group.finished()) table.rows.push_back({text_cell(group.label)});
  const auto add = [&](const Column& column, auto cell_of) {
    table.columns.push_back(column);
    auto row = table.rows.begin();
    for (const Group& group : groups)
      if (group.finished()) (row++)->push_back(cell_of(group));
  };
  const std::vector<Quantity> all = quantities(groups);
  for (const std::string& key : {main_figure(groups).key(), std::string("bits_per_value"),
                                 std::string("sent_bytes_per_rank")}) {
    const Quantity& q = *std::ranges::find(all, key, &Quantity::key);
    add({q.key, q.head, Type::spread},
        [&](const Group& group) { return spread_cell(group.spread(q.of), q.digits, q.scale); });
  }
  for (const double rate : rates)
    add(planned_column(rate), [&](const Group& group) {
      return spread_cell(group.spread([&](const Run& run) { return planned_seconds(run, rate); }),
                         {1});
    });
  return table;
}

}  // namespace eqt::report
