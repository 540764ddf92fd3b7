#include "report/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/quantities.hpp"

namespace eqt::report {
namespace {

using Type = Column::Type;

Figure accuracy_of(const Run& run) { return run.outcome.test_accuracy; }

std::string epochs_text(const Run& run) {
  const std::uint64_t epochs = run.outcome.epochs;
  if (run.finished || run.planned_epochs == 0) return fmt::format("{}", epochs);
  return fmt::format("{} of {}", epochs, run.planned_epochs);
}

/// A row per group of the quantities that are main ones, or of the others.
Table table_of(const std::vector<Group>& groups, bool main) {
  Table table{
      "", "", {{"run", "runs"}, {"seeds", "seeds", Type::number}, {"epochs", "epochs"}}, {}, {}};
  for (const Group& group : groups)
    table.rows.push_back({text_cell(group.label),
                          number_cell(static_cast<double>(group.runs.size()), {0}),
                          text_cell(epochs_text(group.first()))});
  for (const Quantity& q : quantities()) {
    if (q.main != main) continue;
    table.columns.push_back({q.key, q.head, Type::spread});
    for (std::size_t i = 0; i < groups.size(); ++i)
      table.rows[i].push_back(spread_cell(groups[i].spread(q.of), q.digits, q.scale));
  }
  drop_empty_columns(table);
  return table;
}

}  // namespace

std::vector<bool> pareto_front(const std::vector<Group>& groups) {
  struct Point {
    Spread bytes, accuracy;
    bool known() const { return bytes.known > 0 && accuracy.known > 0; }
  };
  std::vector<Point> points;
  for (const Group& group : groups)
    points.push_back({group.spread(bytes_per_rank), group.spread(accuracy_of)});
  const auto beats = [](const Point& a, const Point& b) {
    return a.known() && a.bytes.mean <= b.bytes.mean && a.accuracy.mean >= b.accuracy.mean &&
           (a.bytes.mean < b.bytes.mean || a.accuracy.mean > b.accuracy.mean);
  };
  std::vector<bool> front;
  for (const Point& point : points)
    front.push_back(point.known() && std::ranges::none_of(points, [&](const Point& other) {
                      return beats(other, point);
                    }));
  return front;
}

Table comparison_table(const std::vector<Group>& groups) {
  Table table = table_of(groups, true);
  table.name = "comparison";
  table.caption = "Runs compared: mean ± sample standard deviation over seeds";
  const std::vector<bool> front = pareto_front(groups);
  if (std::ranges::find(front, true) != front.end()) {
    table.columns.push_back({"pareto", "Pareto front"});
    for (std::size_t i = 0; i < groups.size(); ++i)
      table.rows[i].push_back(text_cell(front[i] ? "yes" : kNothing));
    table.notes = {"Pareto front: no other row sent less and was as accurate."};
  }
  table.notes.insert(table.notes.begin(),
                     "Sent bytes are those of a mean rank in the whole run; seconds per step are a "
                     "mean over all steps, of the slowest rank.");
  return table;
}

Table details_table(const std::vector<Group>& groups) {
  Table table = table_of(groups, false);
  table.name = "details";
  table.caption = "More of the same runs: mean ± sample standard deviation over seeds";
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
  Table table{"runs",
              "Every run",
              {{"folder", "folder"},
               {"run", "row above"},
               {"seed", "seed"},
               {"state", "state"},
               {"test_accuracy", "test accuracy [%]", Type::number},
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
      const Figure accuracy = run->outcome.test_accuracy;
      table.rows.push_back({text_cell(run->folder), text_cell(group.label), text_cell(run->seed),
                            text_cell(run->finished ? "finished" : "unfinished"),
                            number_cell(accuracy, {2}, 100), text_cell(run->version),
                            text_cell(run->host), text_cell(run->outcome.parameter_hash),
                            text_cell(remarks)});
    }
  }
  return table;
}

}  // namespace eqt::report
