// SPDX-License-Identifier: Apache-2.0
// What runs would take on boards with links of several rates, as a sweep planned it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>

#include "report/planned.hpp"
#include "report/quantities.hpp"

namespace eqt::report {
using figures::spread_cell;
using figures::text_cell;

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

std::string own_collectives(const std::vector<Group>& groups) {
  std::map<std::string, std::vector<std::string>> labels;
  for (const Group& group : groups) {
    const Run& run = group.first();
    const bool gossips = run.collective.empty() || run.collective == "none";
    if (group.finished()) labels[gossips ? run.algorithm : run.collective].push_back(group.label);
  }
  std::string text = "Bytes and seconds are of each run's own collective: ";
  for (const auto& [collective, names] : labels)
    text += fmt::format("{}{} of {}", collective == labels.begin()->first ? "" : "; ", collective,
                        fmt::join(names, ", "));
  return text + ".";
}

Table planned_table(const std::vector<Group>& groups) {
  Table table{"planned",
              "All steps of a run if each rank is a board on a link of its own",
              {{"run", "runs"}},
              {},
              {"Seconds by equant-train plan, without tests; \"-\" where it has no plan."}};
  const std::set<double> rates = planned_rates(groups);
  if (rates.empty()) return table;
  table.notes.push_back(own_collectives(groups));
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
  const auto one_board = [](const Run& run) { return run.planned_one_board; };
  if (std::ranges::none_of(groups,
                           [&](const Group& group) { return group.spread(one_board).known > 0; }))
    return table;
  add({"plan_one_board_seconds", "one board alone [s]", Type::spread},
      [&](const Group& group) { return spread_cell(group.spread(one_board), {1}); });
  table.notes.emplace_back(
      "One board alone: as many samples on one of these boards, with the same batch and no "
      "exchange.");
  return table;
}

}  // namespace eqt::report
