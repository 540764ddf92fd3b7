// SPDX-License-Identifier: Apache-2.0
// What runs would take on boards with links of several rates, as a sweep planned it.

#include <fmt/format.h>

#include "report/comparison.hpp"
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
  const MainFigure main = main_figure(groups);
  Table table{"planned",
              "All steps of a run if each rank is a board on a link of its own",
              {{"run", "runs"},
               {main.key(), main.head(), Type::spread},
               {"bits_per_value", "bits/value", Type::spread},
               {"sent_bytes_per_rank", "sent per rank [MB]", Type::spread}},
              {},
              {"Seconds by equant-train plan, without tests; \"-\" where it has no plan."}};
  const std::set<double> rates = planned_rates(groups);
  if (rates.empty()) return table;
  for (const double rate : rates) table.columns.push_back(planned_column(rate));
  for (const Group& group : groups) {
    if (!group.finished()) continue;
    const auto spread = [&](auto of, Digits digits, double scale) {
      return spread_cell(group.spread(of), digits, scale);
    };
    std::vector<Cell> row = {
        text_cell(group.label),
        spread([&](const Run& run) { return main.of(run); }, main.digits(), main.scale()),
        spread([](const Run& run) { return run.outcome.bits_per_value; }, {3}, 1),
        spread(bytes_per_rank, {-1, 4}, 1e-6)};
    for (const double rate : rates)
      row.push_back(spread([&](const Run& run) { return planned_seconds(run, rate); }, {1}, 1));
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace eqt::report
