// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "figures/rows.hpp"
#include "planner/plan_tables.hpp"

namespace eqt::planner {

using nlohmann::ordered_json;

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
  for (const PlannedRun& run : plans.whole)
    if (const auto& first = run.first_epochs; !first.empty())
      notes.push_back(fmt::format(
          "{}: steps of the first {} send more values, up to {:.3g} %, and take {} at first and {} "
          "at last; all else here is of later ones",
          run.scheme, first.size() == 1 ? "epoch" : fmt::format("{} epochs", first.size()),
          100 * first.front().density, duration(first.front().step_seconds),
          duration(first.back().step_seconds)));
  std::map<int, std::vector<std::string>> best_ranks;
  for (std::size_t s = 0; s < plans.whole.size(); ++s)
    if (const auto most = crossover(plans.by_ranks[s]))
      best_ranks[*most].push_back(plans.whole[s].scheme);
  for (const auto& [ranks, names] : best_ranks)
    notes.push_back(fmt::format("of these numbers {} {} best for {}: more make it slower", ranks,
                                ranks == 1 ? "rank is" : "ranks are", fmt::join(names, "; ")));
  const PlannedRun& best = plans.whole[plans.best];
  if (best.forward_overlap.value_or(0) >= 0.005)
    notes.push_back(fmt::format(
        "{}: a forward pass that waited for each layer's mean alone would gain at most {:.1f} %",
        best.scheme, 100 * *best.forward_overlap));
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
  for (const std::string& sentence : answer_of(plans, file)) fmt::print("{}\n", sentence);
  fmt::print("\n");
  for (const PlanTable& table : tables_of(plans, file)) {
    fmt::print("{}\n", table.caption);
    figures::print_rows(table.rows, table.columns, false);
    for (const std::string& remark : table.remarks) fmt::print("{}\n", remark);
    fmt::print("\n");
  }
  for (const std::string& note : notes) fmt::print("* {}\n", note);
}

void print_json(const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes) {
  ordered_json document = {{"summary", first_sentence(plans, file)},
                           {"ranks", file.cluster.ranks()},
                           {"best", plans.whole[plans.best].scheme},
                           {"compression", pays_sentence(plans)}};
  if (plans.one_board) {
    document["one_board"] = row_of(*plans.one_board);
    document["one_board"]["fastest"] = one_board_is_fastest(plans);
  }
  document["schemes"] = ordered_json::array();
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    ordered_json row = row_of(plans.whole[s]);
    row["break_even_megabits"] = std::isfinite(plans.break_even[s])
                                     ? ordered_json(plans.break_even[s])
                                     : ordered_json(nullptr);
    row["as_fast_as_best"] =
        seconds_a_sample(plans.whole[s]) <= (1 + kTie) * seconds_a_sample(plans.whole[plans.best]);
    row["always_faster"] = std::isinf(plans.break_even[s]);
    if (plans.one_board) row["times_one_board"] = times_one_board(plans, plans.whole[s]);
    row["by_ranks"] = ordered_json::array();
    for (const PlannedRun& run : plans.by_ranks[s]) row["by_ranks"].push_back(row_of(run));
    row["more_make_it_slower_from"] = nullptr;
    if (const auto most = crossover(plans.by_ranks[s])) row["more_make_it_slower_from"] = *most;
    document["schemes"].push_back(row);
  }
  document["notes"] = notes;
  fmt::print("{}\n", document.dump(2));
}

}  // namespace eqt::planner
