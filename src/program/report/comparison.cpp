// SPDX-License-Identifier: Apache-2.0
#include "report/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "report/quantities.hpp"

namespace eqt::report {
using figures::Cell;
using figures::Column;
using figures::drop_empty_columns;
using figures::error_cell;
using figures::kNothing;
using figures::number_cell;
using figures::spread_cell;
using figures::text_cell;

namespace {

using Type = Column::Type;

/// "20", "8 to 20" where seeds stopped early, "8 of 20" of runs that did not come to their end.
std::string epochs_text(const Group& group) {
  const Run& run = group.first();
  const auto epochs = [](const Run* one) { return one->outcome.epochs; };
  const std::uint64_t least = epochs(*std::ranges::min_element(group.runs, {}, epochs));
  const std::uint64_t most = epochs(*std::ranges::max_element(group.runs, {}, epochs));
  if (least != most) return fmt::format("{} to {}", least, most);
  if (run.finished || run.planned_epochs == 0) return fmt::format("{}", least);
  return fmt::format("{} of {}", least, run.planned_epochs);
}

/// "2 of 3" where a run of the group did not come to its end.
Cell seeds_cell(const Group& group, const std::vector<Group>& groups) {
  const std::size_t count = group.runs.size(), lost = lost_runs(group, groups).size();
  Cell cell = number_cell(static_cast<double>(count), {0});
  if (lost > 0) cell.text = fmt::format("{} of {}", count, count + lost);
  return cell;
}

bool is_one_run(const std::vector<Group>& groups) {
  return groups.size() == 1 && groups.front().runs.size() == 1;
}

constexpr const char* kErrorSuffix = "_error";

/// The cells of a column: the spreads of a quantity, and for the main figure its standard error.
void add_quantity(const std::vector<Group>& groups, const Quantity& q, Table& table) {
  const bool with_error = q.key == main_figure(groups).key();
  table.columns.push_back({q.key, q.head, Type::spread});
  if (with_error) table.columns.push_back({q.key + kErrorSuffix, "standard error", Type::number});
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Spread spread = groups[i].spread(q.of);
    table.rows[i].push_back(spread_cell(spread, q.digits, q.scale));
    if (with_error) table.rows[i].push_back(error_cell(spread, q.scale));
  }
}

Figure samples_a_second(const Group& group) {
  const Spread spread = group.spread([](const Run& run) { return run.outcome.images_per_second; });
  return spread.known > 0 && spread.mean > 0 ? Figure(spread.mean) : Figure();
}

/// The fastest group of one rank that differs in nothing but ranks, links and what ranks exchange.
Figure one_board_of(const Group& group, const std::vector<Group>& groups) {
  const auto exchanges = [](std::string_view key) {
    return key == "ranks" || key == "link.rate" || key.starts_with("synchronization.") ||
           key.starts_with("compressor.");
  };
  const auto alike = [&](const auto& a, const auto& b) { return exchanges(a.first) || a == b; };
  Figure fastest;
  for (const Group& other : groups)
    if (other.first().ranks == 1 && !other.first().simulated &&
        std::ranges::equal(group.differences, other.differences, alike))
      fastest = std::max(fastest, samples_a_second(other));
  return fastest;
}

/// Samples a second of a rank that would only prepare data, compute and update, by what the slowest
/// one needed for that: at most what a board reaches alone, whose cores are not shared.
Figure least_of_one_board(const Group& group) {
  const Spread spread = group.spread([](const Run& run) {
    const metrics::PhaseSeconds& step = run.outcome.step_seconds;
    const double seconds = step.data + step.compute + step.update;
    const double batch =
        std::strtod(run.setting("train.batch_size").c_str(), nullptr) *
        std::max(1.0, std::strtod(run.setting("train.accumulate").c_str(), nullptr));
    return batch > 0 && seconds > 0 ? Figure(batch / seconds) : Figure();
  });
  const std::string batches = group.first().setting("train.batch_sizes", "null");
  return spread.known > 0 && batches == "null" ? Figure(spread.mean) : Figure();
}

/// The speed of groups of several ranks relative to one board alone: to a run of one, or at most.
void add_one_board(const std::vector<Group>& groups, Table& table) {
  table.columns.insert(table.columns.end(),
                       {{"times_one_board", "x one board", Type::number},
                        {"times_one_board_at_most", "x one board, at most", Type::number}});
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Figure ours = samples_a_second(groups[i]);
    const Run& run = groups[i].first();
    Figure alone, least;
    if (ours && run.ranks > 1 && !run.simulated) {
      alone = one_board_of(groups[i], groups);
      if (!alone) least = least_of_one_board(groups[i]);
    }
    table.rows[i].push_back(number_cell(alone ? Figure(*ours / *alone) : Figure(), {2}));
    table.rows[i].push_back(number_cell(least ? Figure(*ours / *least) : Figure(), {2}));
  }
}

bool has_column(const Table& table, const std::string& key) {
  return std::ranges::find(table.columns, key, &Column::key) != table.columns.end();
}

/// Adds what the heads of columns alone do not say; docs/runs.md says more.
void explain_columns(Table& table) {
  if (has_column(table, "sent_bytes_per_rank"))
    table.notes.emplace_back(
        "Sent: bytes of a mean rank from the first step to the last, by the run's own collective.");
  if (has_column(table, "step_seconds"))
    table.notes.emplace_back("Seconds per step: a mean over all steps, of the slowest rank.");
  for (const bool main : {true, false})
    for (const metrics::FigureRow& row : metrics::kFigures)
      if (row.main == main && row.note != nullptr && has_column(table, row.name))
        table.notes.emplace_back(row.note);
}

/// Adds notes on what the columns of add_one_board() mean, as far as they are there.
void explain_one_board(Table& table) {
  const auto has = [&](const char* key) { return has_column(table, key); };
  if (has("times_one_board"))
    table.notes.emplace_back(
        "x one board: samples a second, divided by those of the fastest run of one rank here that "
        "differs in nothing but ranks, links and what is exchanged.");
  if (has("times_one_board_at_most"))
    table.notes.emplace_back(
        "x one board, at most: samples a second, divided by those of a rank that would only "
        "prepare data, compute and update, in the seconds that the slowest rank needed for that; "
        "alone a board is at least as fast, and faster where these ranks shared cores.");
}

/// A row per group of the main quantities, with the first of them in the second column, or of the
/// other quantities.
Table table_of(const std::vector<Group>& groups, bool main) {
  Table table{"", "", {{"run", is_one_run(groups) ? "run" : "runs"}}, {}, {}};
  for (const Group& group : groups) table.rows.push_back({text_cell(group.label)});
  const auto add_counts = [&] {
    table.columns.insert(table.columns.end(),
                         {{"seeds", "seeds", Type::number}, {"epochs", "epochs"}});
    for (std::size_t i = 0; i < groups.size(); ++i) {
      table.rows[i].push_back(seeds_cell(groups[i], groups));
      table.rows[i].push_back(text_cell(epochs_text(groups[i])));
    }
  };
  bool counted = false;
  for (const Quantity& q : quantities(groups)) {
    if (q.main != main) continue;
    add_quantity(groups, q, table);
    if (!counted) add_counts();
    counted = true;
    if (q.key == "step_seconds") add_one_board(groups, table);
  }
  drop_empty_columns(table);
  return table;
}

/// Marks the groups on the Pareto front, if there is one.
void add_pareto(const std::vector<Group>& groups, Table& table) {
  const std::vector<Standing> front = pareto_front(groups);
  if (groups.size() < 2 || std::ranges::none_of(front, &Standing::on_front)) return;
  table.columns.push_back({"pareto", "Pareto front"});
  for (std::size_t i = 0; i < groups.size(); ++i)
    table.rows[i].push_back(text_cell(!front[i].certain   ? "uncertain"
                                      : front[i].on_front ? "yes"
                                                          : kNothing));
  table.notes.push_back(
      "Pareto front: no other row sent less and was as accurate; uncertain where that depends on "
      "where in their deviations the rows lie. A row of one seed has no deviation.");
}

}  // namespace

std::vector<Standing> pareto_front(const std::vector<Group>& groups) {
  struct Place {
    double bytes, accuracy;
  };
  struct Point {
    Spread bytes, accuracy;
    bool known() const { return bytes.known > 0 && accuracy.known > 0; }
    /// The point that is `luck` deviations better than the means.
    Place at(double luck) const {
      return {bytes.mean - luck * bytes.deviation.value_or(0),
              accuracy.mean + luck * accuracy.deviation.value_or(0)};
    }
  };
  const MainFigure main = main_figure(groups);
  const auto of_run = [&](const Run& run) { return main.of(run); };
  const auto goodness = [&](Spread spread) {  // higher is better
    if (!main.metric.higher_is_better) spread.mean = -spread.mean;
    return spread;
  };
  std::vector<Point> points;
  for (const Group& group : groups)
    points.push_back(is_comparable(group, groups)
                         ? Point{group.spread(bytes_per_rank), goodness(group.spread(of_run))}
                         : Point{});
  const auto beats = [](const Place& a, const Place& b) {
    return a.bytes <= b.bytes && a.accuracy >= b.accuracy &&
           (a.bytes < b.bytes || a.accuracy > b.accuracy);
  };
  // True if another group, better by that many deviations, beats this one, worse by as many.
  const auto is_beaten = [&](const Point& point, double luck) {
    return std::ranges::any_of(points, [&](const Point& other) {
      return &other != &point && other.known() && beats(other.at(luck), point.at(-luck));
    });
  };
  std::vector<Standing> front;
  for (const Point& point : points) {
    if (!point.known()) {
      front.push_back({});
      continue;
    }
    const bool on_front = !is_beaten(point, 0);
    front.push_back({on_front, on_front ? !is_beaten(point, 1) : is_beaten(point, -1)});
  }
  return front;
}

Table comparison_table(const std::vector<Group>& groups) {
  const MainFigure main = main_figure(groups);
  Table table = table_of(groups, true);
  table.name = "comparison";
  table.caption =
      is_one_run(groups) ? "The run" : "Runs compared: mean ± sample standard deviation over seeds";
  explain_columns(table);
  if (has_column(table, main.key() + kErrorSuffix))
    table.notes.push_back(
        fmt::format("Standard error: of the mean {}, deviation / sqrt(seeds).", main.title()));
  explain_one_board(table);
  add_pareto(groups, table);
  return table;
}

Table details_table(const std::vector<Group>& groups) {
  Table table = table_of(groups, false);
  table.name = "details";
  table.caption = is_one_run(groups)
                      ? "More of the same run"
                      : "More of the same runs: mean ± sample standard deviation over seeds";
  explain_columns(table);
  return table;
}

Table settings_table(const std::vector<Group>& groups) {
  Table table{"settings", "Settings in which the runs differ", {{"setting", "setting"}}, {}, {}};
  for (const Group& group : groups) table.columns.push_back({group.label, group.label});
  const auto& keys = groups.front().differences;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::vector<Cell> row = {text_cell(keys[i].first)};
    for (const Group& group : groups) row.push_back(text_cell(group.differences[i].second));
    table.rows.push_back(row);
  }
  return table;
}

Table runs_table(const std::vector<Group>& groups) {
  const MainFigure main = main_figure(groups);
  Table table{"runs",
              is_one_run(groups) ? "The run" : "Every run",
              {{"folder", "folder"},
               {main.key(), main.head(), Type::number},
               {"run", "row above"},
               {"seed", "seed"},
               {"state", "state"},
               {"version", "version"},
               {"host", "host"},
               {"parameter_hash", "parameter hash"},
               {"remarks", "remarks"}},
              {},
              {}};
  for (const Group& group : groups) {
    for (const Run* run : group.runs) {
      std::string remarks;
      for (const std::string& remark : run->remarks)
        remarks += (remarks.empty() ? "" : "; ") + remark;
      table.rows.push_back(
          {text_cell(run->folder), number_cell(main.of(*run), main.digits(), main.scale()),
           text_cell(group.label), text_cell(run->seed),
           text_cell(run->finished ? "finished" : "unfinished"), text_cell(run->version),
           text_cell(run->host), text_cell(run->outcome.parameter_hash), text_cell(remarks)});
    }
  }
  return table;
}

}  // namespace eqt::report
