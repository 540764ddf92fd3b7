// SPDX-License-Identifier: Apache-2.0
#include "planner/plan_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace eqt::planner {
namespace {

using nlohmann::ordered_json;

/// "on 8 ranks: 0.33 s a step, 16.2 min an epoch".
std::string speed_text(const PlannedRun& run) {
  std::string text = fmt::format("{} a step", duration(run.forecast.mean_seconds));
  if (run.epoch_seconds) text += fmt::format(", {} an epoch", duration(*run.epoch_seconds));
  return text;
}

/// In minutes, kilojoules and megabytes, as people read them.
figures::Row readable(const PlannedRun& run) {
  figures::Row row = row_of(run);
  row["mb"] = run.forecast.sent_bytes / 1e6;
  row["mib"] = run.memory_bytes / (1 << 20);
  if (run.epoch_seconds) row["epoch_minutes"] = *run.epoch_seconds / 60;
  if (run.epoch_joules) row["epoch_kj"] = *run.epoch_joules / 1e3;
  if (run.target_seconds) row["target_minutes"] = *run.target_seconds / 60;
  row["samples_per_kj"] = run.joules > 0 ? ordered_json(1e3 * run.samples / run.joules) : nullptr;
  return row;
}

PlanTable scheme_table(const Plans& plans) {
  PlanTable table = {
      .name = "schemes",
      .caption = fmt::format("{} ranks, by scheme:", plans.whole[0].ranks),
      .rows = {},
      .columns = {{"scheme", "scheme"},
                  {"collective", "collective"},
                  {"step_seconds", "s/step"},
                  {"step_seconds_p90", "90 %"},
                  {"epoch_minutes", "min/epoch", 3},
                  {"computing_seconds", "computing", 3},
                  {"waiting_seconds", "waiting", 3},
                  {"communicating_seconds", "codec", 3},
                  {"sending_seconds", "link", 3},
                  {"mb", "MB sent", 3},
                  {"mib", "MiB/rank", 4},
                  {"break_even", "faster below [Mb/s]", 3}},
      .remarks = {
          "Seconds a step of a rank: computing, waiting for the means of others, the "
          "communication",
          "thread's work, and its messages at the link's full rate. MB sent: by a rank in a "
          "step.",
          "Faster below: the rate of the slowest link below which the scheme is faster than "
          "float32."}};
  if (plans.one_board) {
    table.columns.insert(table.columns.begin() + 4, {"times_one_board", "x one board", 3});
    table.remarks.emplace_back(
        "x one board: samples a second, divided by those of one board alone, the kind that "
        "computes most,");
    table.remarks.emplace_back("with the same batch on each of its ranks and no exchange.");
  }
  bool joules = false, targets = false;
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    const PlannedRun& run = plans.whole[s];
    figures::Row row = readable(run);
    if (std::isinf(plans.break_even[s])) row["break_even"] = "always";
    if (std::isfinite(plans.break_even[s])) row["break_even"] = plans.break_even[s];
    if (plans.break_even[s] == 0) row["break_even"] = "never";
    joules = joules || run.joules > 0;
    targets = targets || run.noise;
    if (plans.one_board) row["times_one_board"] = times_one_board(plans, run);
    table.rows.push_back(std::move(row));
  }
  if (plans.one_board) {
    figures::Row row = readable(*plans.one_board);
    row["times_one_board"] = 1.0;
    const bool first = one_board_is_fastest(plans);
    table.rows.insert(first ? table.rows.begin() : table.rows.end(), std::move(row));
  }
  if (joules) table.columns.push_back({"epoch_kj", "kJ/epoch", 3});
  if (targets) {
    table.columns.push_back({"compression_noise", "noise q", 3});
    table.columns.push_back({"target_steps", "steps to target", 4});
    table.columns.push_back({"target_minutes", "min to target", 3});
  }
  return table;
}

PlanTable rank_table(const Plans& plans) {
  const bool epochs = plans.whole[0].epoch_seconds.has_value();
  PlanTable table = {
      .name = "ranks",
      .caption = fmt::format("{} by ranks:", epochs ? "Minutes an epoch" : "Samples per second"),
      .rows = {},
      .columns = {{"ranks", "ranks"}}};
  for (const PlannedRun& run : plans.whole)
    table.columns.push_back({run.scheme.c_str(), run.scheme.c_str(), 4});
  for (std::size_t i = 0; i < plans.ranks.size(); ++i) {
    figures::Row row = {{"ranks", plans.ranks[i]}};
    for (std::size_t s = 0; s < plans.whole.size(); ++s) {
      const PlannedRun& run = plans.by_ranks[s][i];
      row[run.scheme] = epochs ? *run.epoch_seconds / 60 : 1 / seconds_a_sample(run);
    }
    table.rows.push_back(row);
  }
  return table;
}

/// The plans on a front, the cheapest first.
PlanTable front_table(const Plans& plans, const ClusterFile& file) {
  std::vector<const PlannedRun*> front;
  bool prices = false, joules = false;
  for (const auto& runs : plans.by_ranks) {
    for (const PlannedRun& run : runs) {
      if (!run.pareto || !(run.pareto->price || run.pareto->joules)) continue;
      front.push_back(&run);
      prices = prices || run.pareto->price;
      joules = joules || run.pareto->joules;
    }
  }
  std::ranges::sort(front, {}, [](const PlannedRun* run) {
    return std::pair(run->price, run->joules / run->samples);
  });
  PlanTable table = {.name = "fronts",
                     .caption = "What nothing else beats in time and price, or in time and energy:",
                     .rows = {},
                     .columns = {{"scheme", "scheme"}, {"ranks", "ranks"}}};
  const bool epochs = plans.whole[0].epoch_seconds.has_value();
  table.columns.push_back(epochs ? figures::RowColumn{"epoch_minutes", "min/epoch", 3}
                                 : figures::RowColumn{"images_per_second", "samples/s", 4});
  if (prices) table.columns.push_back({"price_text", "price", 4});
  if (joules)
    table.columns.push_back(epochs ? figures::RowColumn{"epoch_kj", "kJ/epoch", 3}
                                   : figures::RowColumn{"samples_per_kj", "samples/kJ", 3});
  table.columns.push_back({"front", "least time for its"});
  for (const PlannedRun* const run : front) {
    figures::Row row = readable(*run);
    row["price_text"] = fmt::format("{:.6g} {}", run->price, file.currency);
    row["front"] =
        run->pareto->price ? run->pareto->joules ? "price and energy" : "price" : "energy";
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

/// "1.23 s", "16.2 min", "3.4 h", "2.1 days".
std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.3g} h", seconds / 3600);
  return fmt::format("{:.3g} days", seconds / 86400);
}

figures::Row row_of(const PlannedRun& run) {
  const forecast::BoardUse& use = slowest_boards(run);
  figures::Row row = {{"scheme", run.scheme},
                      {"ranks", run.ranks},
                      {"collective", run.collective},
                      {"step_seconds", run.forecast.mean_seconds},
                      {"step_seconds_median", run.forecast.quantile(0.5)},
                      {"step_seconds_p90", run.forecast.quantile(0.9)},
                      {"images_per_second", run.samples / run.forecast.mean_seconds},
                      {"computing_seconds", use.computing},
                      {"waiting_seconds", use.waiting},
                      {"communicating_seconds", use.communicating},
                      {"sending_seconds", use.sending},
                      {"sent_bytes_per_rank", run.forecast.sent_bytes},
                      {"memory_bytes_per_rank", run.memory_bytes},
                      {"by_rank", run.forecast.by_rank}};
  row["epoch_seconds"] = run.epoch_seconds ? ordered_json(*run.epoch_seconds) : nullptr;
  row["epoch_joules"] = run.epoch_joules ? ordered_json(*run.epoch_joules) : nullptr;
  if (run.forward_overlap) row["forward_overlap_gain"] = *run.forward_overlap;
  if (run.noise) {
    row["compression_noise"] = *run.noise;
    row["target_steps"] = *run.target_steps;
    row["target_seconds"] = *run.target_seconds;
  }
  row["price"] = run.price > 0 ? ordered_json(run.price) : nullptr;
  if (run.pareto) row["pareto"] = run.pareto->price || run.pareto->joules;
  if (!run.too_small.empty()) row["memory_too_small"] = run.too_small;
  for (const auto& epoch : run.first_epochs)
    row["first_epochs"].push_back(
        {{"density", epoch.density}, {"step_seconds", epoch.step_seconds}});
  return row;
}

std::string first_sentence(const Plans& plans, const ClusterFile& file) {
  const PlannedRun& best = plans.whole[plans.best];
  std::string text = fmt::format("{} by {} on {} ranks: {}", best.scheme, best.collective,
                                 best.ranks, speed_text(best));
  if (plans.one_board)
    text += fmt::format(", {:.2f} times one board alone", times_one_board(plans, best));
  if (one_board_is_fastest(plans))
    text = fmt::format("{} is the fastest: {}; {}", plans.one_board->scheme,
                       speed_text(*plans.one_board), text);
  if (const std::string ties = ties_of(plans); !ties.empty())
    text += fmt::format("; as fast, within {:g} %: {}", 100 * kTie, ties);
  if (plans.float32 && *plans.float32 != plans.best)
    text += fmt::format("; {}: {}", plans.whole[*plans.float32].scheme,
                        duration(plans.whole[*plans.float32].forecast.mean_seconds));
  const int more = best.ranks + file.cluster.boards.back().ranks;
  const auto place = std::ranges::find(plans.ranks, more);
  if (place != plans.ranks.end()) {
    const PlannedRun& next =
        plans.by_ranks[plans.best][static_cast<std::size_t>(place - plans.ranks.begin())];
    const double gain = 100 * (seconds_a_sample(best) / seconds_a_sample(next) - 1);
    text += fmt::format("; a further {} {} {:.1f} %", file.cluster.boards.back().name,
                        gain < 0 ? "costs" : "gains", std::abs(gain));
  }
  return text + ".";
}

std::vector<std::string> answer_of(const Plans& plans, const ClusterFile& file) {
  std::vector<std::string> sentences = {first_sentence(plans, file)};
  if (std::string pays = pays_sentence(plans); !pays.empty())
    sentences.insert(one_board_is_fastest(plans) ? sentences.end() : sentences.begin(),
                     std::move(pays));
  return sentences;
}

std::vector<PlanTable> tables_of(const Plans& plans, const ClusterFile& file) {
  std::vector<PlanTable> tables = {scheme_table(plans), rank_table(plans)};
  if (PlanTable fronts = front_table(plans, file); !fronts.rows.empty())
    tables.push_back(std::move(fronts));
  return tables;
}

}  // namespace eqt::planner
