// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "analyze/table.hpp"
#include "planner/plans.hpp"

namespace eqt::planner {
namespace {

using nlohmann::ordered_json;

/// "1.23 s", "16.2 min", "3.4 h", "2.1 days".
std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.3g} h", seconds / 3600);
  return fmt::format("{:.3g} days", seconds / 86400);
}

/// "on 8 ranks: 0.33 s a step, 16.2 min an epoch".
std::string speed_text(const PlannedRun& run) {
  std::string text = fmt::format("{} a step", duration(run.forecast.mean_seconds));
  if (run.epoch_seconds) text += fmt::format(", {} an epoch", duration(*run.epoch_seconds));
  return text;
}

std::string first_sentence(const Plans& plans, const ClusterFile& file) {
  const PlannedRun& best = plans.whole[plans.best];
  std::string text = fmt::format("{} by {} on {} ranks: {}", best.scheme, best.collective,
                                 best.ranks, speed_text(best));
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

/// Of the kind of boards whose ranks wait least: it determines the step.
const forecast::BoardUse& slowest_boards(const PlannedRun& run) {
  return *std::ranges::min_element(run.forecast.boards, {}, &forecast::BoardUse::waiting);
}

ordered_json row_of(const PlannedRun& run) {
  const forecast::BoardUse& use = slowest_boards(run);
  ordered_json row = {{"scheme", run.scheme},
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
  if (run.noise) {
    row["compression_noise"] = *run.noise;
    row["target_steps"] = *run.target_steps;
    row["target_seconds"] = *run.target_seconds;
  }
  row["price"] = run.price > 0 ? ordered_json(run.price) : nullptr;
  if (!run.too_small.empty()) row["memory_too_small"] = run.too_small;
  return row;
}

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

}  // namespace

std::vector<std::string> notes_of(const Plans& plans, const ClusterFile& file,
                                  const Subject& subject) {
  std::vector<std::string> notes;
  notes.push_back("speeds of compressors: " + subject.codecs.origin());
  std::vector<std::string> flops;
  for (std::size_t b = 0; b < file.facts.size(); ++b)
    if (file.facts[b].flops) flops.push_back(file.cluster.boards[b].name);
  if (!flops.empty())
    notes.push_back(
        fmt::format("computing times of {} are guessed from flops", fmt::join(flops, ", ")));
  if (!subject.machine.guessed.empty())
    notes.push_back(fmt::format("guessed: {}", fmt::join(subject.machine.guessed, ", ")));
  if (!plans.whole[plans.best].forecast.by_rank && file.cluster.ranks() > 1)
    notes.push_back("equal boards were represented by one or two of them");
  if (!subject.samples)
    notes.push_back("epochs are unknown: the data set is not here and data.limit_train is not set");
  for (const PlannedRun& run : plans.whole)
    if (!run.too_small.empty())
      notes.push_back(fmt::format("{}: {} MiB a rank exceed the memory of {}", run.scheme,
                                  static_cast<std::uint64_t>(run.memory_bytes / (1 << 20)),
                                  fmt::join(run.too_small, ", ")));
  std::map<int, std::vector<std::string>> best_ranks;
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    const auto fastest = std::ranges::min_element(
        plans.by_ranks[s], {}, [](const PlannedRun& run) { return seconds_a_sample(run); });
    if (fastest->ranks < plans.ranks.back())
      best_ranks[fastest->ranks].push_back(plans.whole[s].scheme);
  }
  for (const auto& [ranks, names] : best_ranks)
    notes.push_back(fmt::format("of these numbers {} {} best for {}: more make it slower", ranks,
                                ranks == 1 ? "rank is" : "ranks are", fmt::join(names, "; ")));
  for (const std::string& reason : plans.left_out) notes.push_back("left out: " + reason);
  if (subject.noise_scale > 0) {
    const PlannedRun* soonest = nullptr;
    for (const PlannedRun& run : plans.whole)
      if (run.target_seconds &&
          (soonest == nullptr || *run.target_seconds < *soonest->target_seconds))
        soonest = &run;
    if (soonest != nullptr)
      notes.push_back(fmt::format("soonest at the target: {}, about {:.0f} steps, {}",
                                  soonest->scheme, *soonest->target_steps,
                                  duration(*soonest->target_seconds)));
    notes.emplace_back(
        "steps to the target are an estimate by S (1 + (1 + q) X / B) (McCandlish et al., 2018); "
        "the noise of compression q is that of normal values, as bench codecs measures it, for "
        "each quantisation of the collective; no estimate for error feedback, biased compressors, "
        "local steps and gossip");
  }
  return notes;
}

void print_text(const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes) {
  fmt::print("{}\n\n", first_sentence(plans, file));
  std::vector<analyze::Row> rows;
  const bool joules =
      std::ranges::any_of(plans.whole, [](const auto& run) { return run.joules > 0; });
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    ordered_json row = row_of(plans.whole[s]);
    row["mb"] = plans.whole[s].forecast.sent_bytes / 1e6;
    row["mib"] = plans.whole[s].memory_bytes / (1 << 20);
    row["epoch_minutes"] = plans.whole[s].epoch_seconds
                               ? ordered_json(*plans.whole[s].epoch_seconds / 60)
                               : ordered_json(nullptr);
    row["epoch_kj"] = plans.whole[s].epoch_joules ? ordered_json(*plans.whole[s].epoch_joules / 1e3)
                                                  : ordered_json(nullptr);
    if (plans.whole[s].target_seconds) row["target_minutes"] = *plans.whole[s].target_seconds / 60;
    row["break_even"] = std::isinf(plans.break_even[s]) ? ordered_json("always")
                                                        : number_or_null(plans.break_even[s]);
    rows.push_back(row);
  }
  std::vector<analyze::Column> columns = {{"scheme", "scheme"},
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
                                          {"break_even", "faster below [Mb/s]", 3}};
  if (joules) columns.push_back({"epoch_kj", "kJ/epoch", 3});
  if (std::ranges::any_of(plans.whole, [](const auto& run) { return run.noise.has_value(); })) {
    columns.push_back({"compression_noise", "noise q", 3});
    columns.push_back({"target_steps", "steps to target", 4});
    columns.push_back({"target_minutes", "min to target", 3});
  }
  analyze::print_rows(rows, columns, false);
  fmt::print(
      "\nSeconds a step of a rank: computing, waiting for the means of others, the\n"
      "communication thread's work, and its messages at the link's full rate. MB sent: by a\n"
      "rank in a step. The last column: the rate of the slowest link below which the scheme\n"
      "is faster than float32.\n\n");
  rows.clear();
  columns = {{"ranks", "ranks"}};
  const bool epochs = plans.whole[0].epoch_seconds.has_value();
  for (const PlannedRun& run : plans.whole)
    columns.push_back({run.scheme.c_str(), run.scheme.c_str(), 4});
  for (std::size_t i = 0; i < plans.ranks.size(); ++i) {
    ordered_json row = {{"ranks", plans.ranks[i]}};
    for (std::size_t s = 0; s < plans.whole.size(); ++s) {
      const PlannedRun& run = plans.by_ranks[s][i];
      row[run.scheme] = epochs ? *run.epoch_seconds / 60 : 1 / seconds_a_sample(run);
    }
    rows.push_back(row);
  }
  fmt::print("{} by ranks:\n", epochs ? "Minutes an epoch" : "Samples per second");
  analyze::print_rows(rows, columns, false);
  fmt::print("\n");
  for (const std::string& note : notes) fmt::print("* {}\n", note);
}

void print_json(const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes) {
  ordered_json document = {{"summary", first_sentence(plans, file)},
                           {"ranks", file.cluster.ranks()},
                           {"best", plans.whole[plans.best].scheme}};
  document["schemes"] = ordered_json::array();
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    ordered_json row = row_of(plans.whole[s]);
    row["break_even_megabits"] = number_or_null(plans.break_even[s]);
    row["always_faster"] = std::isinf(plans.break_even[s]);
    row["by_ranks"] = ordered_json::array();
    for (const PlannedRun& run : plans.by_ranks[s]) row["by_ranks"].push_back(row_of(run));
    document["schemes"].push_back(row);
  }
  document["notes"] = notes;
  fmt::print("{}\n", document.dump(2));
}

report::Drawing drawing_of(const Plans& plans) {
  const bool epochs = plans.whole[0].epoch_seconds.has_value();
  std::vector<analyze::Curve> curves;
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    analyze::Curve curve = {plans.whole[s].scheme, {}};
    for (const PlannedRun& run : plans.by_ranks[s])
      curve.points.emplace_back(run.ranks,
                                epochs ? *run.epoch_seconds / 60 : 1 / seconds_a_sample(run));
    curves.push_back(std::move(curve));
  }
  return analyze::curves_drawing({.title = "Plan by scheme and number of ranks",
                                  .x = "ranks",
                                  .y = epochs ? "minutes an epoch" : "samples per second",
                                  .log_x = true,
                                  .log_y = true},
                                 curves);
}

}  // namespace eqt::planner
