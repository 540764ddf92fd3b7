// SPDX-License-Identifier: Apache-2.0
#include "report/paper_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "report/paper_names.hpp"
#include "report/published.hpp"
#include "report/values.hpp"

namespace eqt::report {
using figures::text_cell;

namespace {

/// The value in our runs of a condition that a paper states.
std::string our_condition(const std::string& what, const std::vector<const Run*>& runs) {
  if (what == "data")
    return values_of(runs, [](const Run& run) {
      return run.emulated ? samples_of(run)
                          : fmt::format("{}{}, {}", paper_data(run.dataset), pixels_of(run),
                                        samples_of(run));
    });
  if (what == "hardware")
    return values_of(runs, [](const Run& run) {
      const std::string rate = run.setting("link.rate");
      return fmt::format("{}{} with {} threads a rank, {}{}",
                         run.emulated ? "boards emulated on host " : "all ranks on host ", run.host,
                         run.threads_per_rank, run.torch, rate.empty() ? "" : ", links of " + rate);
    });
  if (what == "batch")
    return values_of(runs, setting("train.batch_size")) + " per rank, ranks " +
           values_of(runs, [](const Run& run) { return fmt::format("{}", run.ranks); });
  if (what == "epochs")
    return values_of(runs, [](const Run& run) {
      if (!run.emulated) return run.setting("train.epochs");
      return fmt::format("seconds are of one step, {} steps measured", run.outcome.steps);
    });
  if (what == "normalization") return values_of(runs, normalization_of);
  if (what == "optimizer")
    return values_of(runs, [](const Run& run) {
      return fmt::format("{}, momentum {} ({}), weight decay {}, rate {}, schedule {}",
                         run.setting("optimizer.name"), run.setting("optimizer.momentum"),
                         run.setting("optimizer.momentum_kind"),
                         run.setting("optimizer.weight_decay"),
                         run.setting("optimizer.learning_rate"), run.setting("schedule.kind"));
    });
  if (what == "precision") return values_of(runs, setting("model.precision"));
  return kNothing;
}

Table conditions_of(const std::string& name, const std::vector<Group>& groups) {
  const PublishedTable& published = published_table(name);
  std::vector<const Run*> runs;
  for (const Group& group : groups) runs.insert(runs.end(), group.runs.begin(), group.runs.end());
  Table table{name + "-conditions",
              "Conditions of the table above: they differ, and so may its figures",
              {{"condition", "condition"}, {"published", "published"}, {"ours", "ours"}},
              {},
              {}};
  for (const auto& [what, how] : published.conditions)
    table.rows.push_back({text_cell(what), text_cell(how), text_cell(our_condition(what, runs))});
  return table;
}

Table table_of(const std::string& name, const std::vector<Group>& groups) {
  if (name == "scalability") return scalability_table(groups);
  if (name == "accuracy") return accuracy_table(groups);
  EQT_CHECK(name == "decentralised", "no table {}", name);
  return decentralised_table(groups);
}

}  // namespace

std::vector<std::string> table_names() { return {"scalability", "accuracy", "decentralised"}; }

std::vector<Table> published_tables(const std::vector<std::string>& names,
                                    const std::vector<Group>& all) {
  std::vector<Group> groups;
  for (const Group& group : all)
    if (is_comparable(group, all)) groups.push_back(group);
  std::vector<Table> tables;
  for (const std::string& name : table_names()) {
    if (std::ranges::find(names, name) == names.end()) continue;
    tables.push_back(table_of(name, groups));
    tables.back().notes.push_back("Published: " + published_table(name).source + ".");
    tables.push_back(conditions_of(name, groups));
  }
  return tables;
}

}  // namespace eqt::report
