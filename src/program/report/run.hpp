// SPDX-License-Identifier: Apache-2.0
// A run as read from its folder: plain structs, filled by read_run.hpp.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "figures/statistics.hpp"
#include "metrics/records.hpp"

namespace eqt::report {

using figures::Figure;
using figures::Spread;

/// An epoch record. Figures are empty if the record has null or no such key.
struct Epoch : metrics::Figures {
  std::uint64_t epoch = 0, step = 0;      // completed
  std::map<std::string, Figure> metrics;  // of the task, by name, without accuracy and loss
  metrics::PhaseSeconds seconds;          // summed over the epoch, maximum over ranks
  std::vector<metrics::PhaseSeconds> rank_seconds;  // by rank; empty: not recorded
  std::uint64_t sent_bytes = 0;                     // of all ranks
};

/// The training loss over some steps, one after another, and the longest of them: as many as one
/// point of a plot has.
struct StepLosses {
  std::uint64_t first = 0, last = 0;  // steps
  double sum = 0;
  std::uint64_t count = 0;  // of losses that are finite
  double longest = 0;       // of these steps, on rank 0 [seconds]; 0: not recorded

  Figure mean() const { return count > 0 ? Figure(sum / static_cast<double>(count)) : Figure(); }
};

/// A start of the run, and what the time before it has cost.
struct Start : metrics::StartRecord {
  std::uint64_t steps_lost = 0;  // recorded ones that are taken again
  double seconds_lost = 0;       // from the end of the last step that is kept to this start
};

/// How long a step took.
struct StepSeconds {
  std::uint64_t step = 0;
  double seconds = 0;  // on rank 0
};

/// The outcome of a run, from its summary, or so far, from its epochs.
struct Outcome : metrics::Figures {
  std::uint64_t epochs = 0, steps = 0;
  std::map<std::string, Figure> metrics;  // as of an epoch
  metrics::PhaseSeconds step_seconds;     // mean step [seconds]
  std::uint64_t sent_bytes = 0;           // of all ranks
  std::string parameter_hash;
};

/// All texts have passed through visible(), see text.hpp.
struct Run {
  std::string folder;  // as found
  std::string path;    // the same, not visible(): for files only
  std::string row;     // its name in a sweep, without the seed; "" outside of sweeps
  std::string label;   // its name in a report, from its group; "" until there are groups
  std::string name, version, host, torch, simd;
  std::string model, dataset, compressor, collective, algorithm;
  std::string seed;
  std::map<std::string, std::string> plugins;  // of its --plugin options: name and the file's hash
  // The task has these metrics, the main one first, without values. A run of an older program has
  // the accuracy.
  std::vector<metrics::MetricRecord> metrics;
  int ranks = 1;
  int threads_per_rank = 0;
  std::uint64_t parameters = 0, train_samples = 0, test_samples = 0;
  std::uint64_t steps_per_epoch = 0, total_steps = 0, planned_epochs = 0;
  std::uint64_t memory_estimate_bytes = 0;  // of a rank, before the start
  std::optional<metrics::Int8Record> int8;
  std::optional<metrics::GradesRecord> grades;  // none: nothing chose them
  bool finished = false;
  std::string end = "unfinished";  // if it is not; how it ended, if a sweep saw it: "diverged"
  bool emulated = false;           // ranks waited instead of computing
  bool simulated = false;          // one process computed for all ranks
  std::string emulated_link;       // how long messages were held; "" = they were not
  std::string laboratory;          // the shaped links that it ran on
  // The resolved config, as dotted keys and JSON values, and settings outside the config ("ranks").
  std::map<std::string, std::string> settings;
  std::vector<std::vector<std::uint64_t>> class_histogram;  // (ranks, classes) [samples]
  std::vector<std::string> class_names;                     // by label; none: not known
  std::vector<Epoch> epochs;
  std::vector<StepLosses> step_losses;  // a few hundred, whatever the number of steps
  std::vector<Start> starts;            // that are known, in their order
  // Steps that took many times as long as the others, for instance because a link was cut.
  std::vector<StepSeconds> pauses;
  Outcome outcome;
  // All its steps take so long if each rank is a board on such a link, as a sweep planned it, by
  // the rate [Mb/s]: seconds, empty where there is no plan.
  std::map<double, Figure> planned_seconds;
  // Each epoch takes so long, where epochs differ; without it all take equally long.
  std::map<double, std::vector<double>> planned_epoch_seconds;
  Figure planned_one_board;          // of as many samples on one such board alone
  std::vector<std::string> remarks;  // what a reader should know, one sentence each

  /// A setting as in the config, strings without quotes; `otherwise` if it is missing.
  std::string setting(const std::string& key, const std::string& otherwise = "") const;
  /// Returns what plots and tables of single runs call it.
  const std::string& title() const { return label.empty() ? name : label; }
};

}  // namespace eqt::report
