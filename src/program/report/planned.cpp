// SPDX-License-Identifier: Apache-2.0
#include "report/planned.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>

#include "report/quantities.hpp"

namespace eqt::report {

using figures::Cell;
using figures::drop_empty_columns;
using figures::number_cell;
using figures::spread_cell;
using figures::text_cell;

namespace {

using Type = Column::Type;
constexpr std::array kShares = {0.85, 0.90};

/// The place between two tests at which a run comes to its target, if its curve is straight there.
struct Arrival {
  const Epoch* before;  // the last test below the target; null: the first test is as good
  const Epoch* at;      // the first one that is as good
  double share;         // of the way from `before` to `at`, in (0, 1]
};

std::optional<Arrival> arrival_of(const Run& run, const std::string& metric, double target) {
  const Epoch* before = nullptr;
  double below = 0;
  for (const Epoch& epoch : run.epochs) {
    const Figure found = metric_of(epoch, metric);
    if (!found) continue;
    if (*found >= target) {
      const double share = before == nullptr ? 1 : (target - below) / (*found - below);
      return Arrival{before, &epoch, share};
    }
    before = &epoch;
    below = *found;
  }
  return {};
}

/// A figure that has grown to some value at the end of each epoch, when the target is reached.
template <typename Of>
auto at_target(const std::string& metric, double target, Of until) {
  return [=](const Run& run) -> Figure {
    const std::optional<Arrival> arrival = arrival_of(run, metric, target);
    if (!arrival) return {};
    const Figure end = until(run, *arrival->at);
    if (!end || arrival->before == nullptr) return end;
    const Figure begin = until(run, *arrival->before);
    return begin ? Figure(*begin + arrival->share * (*end - *begin)) : Figure();
  };
}

Figure epochs_until(const Run&, const Epoch& end) { return static_cast<double>(end.epoch); }

/// Sums something over all epochs up to the end of one.
template <typename Of>
double sum_until(const Run& run, const Epoch& end, Of of) {
  double sum = 0;
  for (const Epoch& epoch : run.epochs)
    if (epoch.epoch <= end.epoch) sum += of(epoch);
  return sum;
}

Figure megabytes_until(const Run& run, const Epoch& end) {
  const auto bytes = [](const Epoch& epoch) { return static_cast<double>(epoch.sent_bytes); };
  return 1e-6 * sum_until(run, end, bytes) / run.ranks;
}

/// Seconds of training that were measured; empty where nobody's were.
Figure measured_until(const Run& run, const Epoch& end) {
  const double seconds =
      sum_until(run, end, [](const Epoch& epoch) { return epoch.seconds.total; });
  return seconds > 0 ? figures::finite(seconds) : Figure();
}

Figure planned_until(const Run& run, const Epoch& end, double megabits) {
  const auto epochs = run.planned_epoch_seconds.find(megabits);
  if (epochs != run.planned_epoch_seconds.end() && epochs->second.size() >= end.epoch)
    return std::accumulate(epochs->second.begin(),
                           epochs->second.begin() + static_cast<std::ptrdiff_t>(end.epoch), 0.0);
  const Figure all = planned_seconds(run, megabits);
  if (!all || run.outcome.steps == 0) return {};
  return *all * static_cast<double>(end.step) / static_cast<double>(run.outcome.steps);
}

std::vector<Cell> cells_of(const Group& group, const MainFigure& main, double share, double target,
                           const std::set<double>& rates) {
  const std::string& metric = main.metric.name;
  const auto spread = [&](auto of, Digits digits) {
    return spread_cell(group.spread(at_target(metric, target, of)), digits);
  };
  std::vector<Cell> row = {text_cell(group.label),
                           number_cell(share, {0}, 100),
                           number_cell(target, main.digits(), main.scale()),
                           spread(epochs_until, {1}),
                           spread(megabytes_until, {-1, 4}),
                           spread(measured_until, {1})};
  for (const double rate : rates)
    row.push_back(spread(
        [rate](const Run& run, const Epoch& e) { return planned_until(run, e, rate); }, {1}));
  return row;
}

}  // namespace

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

Figure plateau_of(const std::vector<Group>& groups) {
  const MainFigure main = main_figure(groups);
  const auto best_of = [&](auto counts) {
    Figure best;
    for (const Group& group : groups) {
      if (!group.finished() || !counts(group.first())) continue;
      const Spread spread = group.spread([&](const Run& run) { return main.of(run); });
      if (spread.known > 0) best = std::max(best.value_or(spread.mean), spread.mean);
    }
    return best;
  };
  const Figure exact = best_of([](const Run& run) {
    return run.compressor == "none" && run.algorithm == "allreduce" &&
           run.setting("model.precision", "fp32") == "fp32";
  });
  return exact ? exact : best_of([](const Run&) { return true; });
}

Table targets_table(const std::vector<Group>& groups) {
  const MainFigure main = main_figure(groups);
  Table table{
      "targets",
      fmt::format("Until the {} is a share of the plateau", main.title()),
      {{"run", "runs"},
       {"share", "share [%]", Type::number},
       {"target", main.head(), Type::number},
       {"epochs", "epochs", Type::spread},
       {"sent_megabytes_per_rank", "sent per rank [MB]", Type::spread},
       {"seconds", "measured [s]", Type::spread}},
      {},
      {"Plateau: the mean at the end of the best float32 allreduce, or without one of the "
       "best row. Between the test before and the first that is as good, the curve is taken "
       "to be straight. ±: deviation over seeds. \"(1 of 3)\": so many seeds came there, "
       "and the mean is theirs alone."}};
  const Figure plateau = plateau_of(groups);
  if (!plateau || !(*plateau > 0) || !main.metric.higher_is_better || groups.size() < 2)
    return table;
  const std::set<double> rates = planned_rates(groups);
  for (const double rate : rates) table.columns.push_back(planned_column(rate));
  table.notes.push_back(own_collectives(groups));
  for (const double share : kShares)
    for (const Group& group : groups)
      if (group.finished())
        table.rows.push_back(cells_of(group, main, share, share * *plateau, rates));
  drop_empty_columns(table);
  return table;
}

}  // namespace eqt::report
