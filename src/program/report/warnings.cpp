// SPDX-License-Identifier: Apache-2.0
// Reasons why the rows of a report cannot be compared, and what the runs have in common.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "report/comparison.hpp"
#include "report/values.hpp"

namespace eqt::report {
using figures::text_cell;

namespace {

std::size_t count_of(const std::vector<Group>& groups, const TextOf& of) {
  std::set<std::string> values;
  for (const Group& group : groups)
    for (const Run* run : group.runs) values.insert(of(*run));
  return values.size();
}

void warn_of_repeats(const Group& group, std::vector<std::string>& warnings) {
  std::set<std::string> seeds;
  for (const Run* run : group.runs) seeds.insert(run->seed);
  if (seeds.size() < group.runs.size())
    warnings.push_back(
        fmt::format("{}: {} runs have {} different seeds; the deviation is not over seeds alone.",
                    group.label, group.runs.size(), seeds.size()));
}

/// A mean over the runs that were left is not a mean over the seeds.
void warn_of_lost(const Group& group, const std::vector<Group>& groups,
                  std::vector<std::string>& warnings) {
  const std::vector<const Run*> lost = lost_runs(group, groups);
  if (lost.empty()) return;
  warnings.push_back(fmt::format(
      "{}: {} of {} runs came to the end, and its figures are theirs alone; {}.", group.label,
      group.runs.size(), group.runs.size() + lost.size(), values_of(lost, [](const Run& run) {
        return fmt::format("seed {} is {} in epoch {}", run.seed, run.end, run.outcome.epochs + 1);
      })));
}

/// Finished groups with fewer seeds than another have.
void warn_of_few_seeds(const std::vector<Group>& groups, std::vector<std::string>& warnings) {
  std::size_t most = 0;
  for (const Group& group : groups)
    if (group.finished()) most = std::max(most, group.runs.size());
  std::string fewer;
  for (const Group& group : groups)
    if (group.finished() && group.runs.size() < most)
      fewer += fmt::format("{}{} ({})", fewer.empty() ? "" : "; ", group.label, group.runs.size());
  if (!fewer.empty())
    warnings.push_back(fmt::format("Rows of fewer seeds than the {} of others: {}.", most, fewer));
}

/// Warns of runs that compress with different files of one plugin.
void warn_of_plugins(const std::vector<Group>& groups, std::vector<std::string>& warnings) {
  std::map<std::string, std::set<std::string>> files;
  for (const Group& group : groups)
    for (const Run* run : group.runs)
      if (const auto own = run->plugins.find(run->compressor); own != run->plugins.end())
        files[own->first].insert(own->second);
  for (const auto& [name, hashes] : files)
    if (hashes.size() > 1)
      warnings.push_back(
          fmt::format("The runs have {} different files of the plugin {}: what changed between "
                      "them is among the differences, also within a row.",
                      hashes.size(), name));
}

void warn_of_run(const Run& run, std::vector<std::string>& warnings) {
  if (!run.finished)
    warnings.push_back(fmt::format("{} is {} (no summary.json): its last epoch, {}, is used.",
                                   run.folder, run.end, run.outcome.epochs));
  for (const std::string& remark : run.remarks)
    warnings.push_back(fmt::format("{}: {}.", run.folder, remark));
}

}  // namespace

Table conditions_table(const std::vector<Run>& runs) {
  Table table{"conditions",
              runs.size() == 1 ? "How the run was made" : "How the runs were made",
              {{"what", "what"}, {"value", "value"}},
              {},
              {}};
  std::vector<const Run*> all;
  for (const Run& run : runs) all.push_back(&run);
  const auto add = [&](const char* what, const TextOf& of) {
    const std::string value = values_of(all, of);
    if (!value.empty()) table.rows.push_back({text_cell(what), text_cell(value)});
  };
  add("data set", [](const Run& run) { return run.dataset + pixels_of(run); });
  add("samples", samples_of);
  add("network",
      [](const Run& run) { return fmt::format("{} ({} parameters)", run.model, run.parameters); });
  add("normalization", normalization_of);
  add("precision", setting("model.precision"));
  add("algorithm", [](const Run& run) { return run.algorithm; });
  add("ranks", [](const Run& run) { return fmt::format("{}", run.ranks); });
  add("batch per rank", setting("train.batch_size"));
  add("epochs", setting("train.epochs"));
  add("learning rate", setting("optimizer.learning_rate"));
  add("schedule", setting("schedule.kind"));
  add("emulated computing [s per step]", [](const Run& run) {
    return run.emulated ? run.setting("train.emulate_compute") : std::string();
  });
  add("link rate", setting("link.rate"));
  add("seeds", [](const Run& run) { return run.seed; });
  add("hosts", [](const Run& run) { return run.host; });
  add("threads per rank", [](const Run& run) { return fmt::format("{}", run.threads_per_rank); });
  add("instruction set", [](const Run& run) { return run.simd; });
  add("8-bit kernels", [](const Run& run) { return run.int8 ? run.int8->kernels : std::string(); });
  add("8-bit values of a step [MB]", [](const Run& run) {
    if (!run.int8) return std::string();
    return fmt::format("{:.3g}, {:.3g} of them kept for the backward pass",
                       1e-6 * static_cast<double>(run.int8->arena_bytes),
                       1e-6 * static_cast<double>(run.int8->saved_bytes));
  });
  add("LibTorch", [](const Run& run) { return run.torch; });
  add("version", [](const Run& run) { return run.version; });
  return table;
}

std::vector<std::string> warnings_of(const std::vector<Group>& groups) {
  std::vector<std::string> warnings;
  for (const Group& group : groups) {
    for (const Run* run : group.runs) warn_of_run(*run, warnings);
    warn_of_repeats(group, warnings);
    warn_of_lost(group, groups, warnings);
  }
  warn_of_few_seeds(groups, warnings);
  if (groups.front().first().emulated)
    warnings.push_back(
        "Emulated: computing is a wait and gradients are drawn; nothing was learned.");
  if (count_of(groups, [](const Run& run) { return run.simulated ? "yes" : "no"; }) > 1 ||
      groups.front().first().simulated)
    warnings.push_back(
        "Simulated runs: one process computed for all ranks, so there are no seconds of them here, "
        "and bytes are what ranks would have sent.");
  const auto differ = [&](const char* what, const TextOf& of, const char* so) {
    const std::size_t count = count_of(groups, of);
    if (count > 1)
      warnings.push_back(fmt::format("The runs have {} different {}: {}.", count, what, so));
  };
  differ(
      "versions of the program", [](const Run& run) { return run.version; },
      "what changed between them is among the differences");
  differ(
      "hosts", [](const Run& run) { return run.host; }, "seconds are not comparable");
  differ("numbers of samples", samples_of, "accuracies and epochs are not of the same data");
  warn_of_plugins(groups, warnings);
  return warnings;
}

}  // namespace eqt::report
