// SPDX-License-Identifier: Apache-2.0
// Sinks: the destinations of records.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"
#include "metrics/records.hpp"

namespace eqt::metrics {

/// Receives records on rank 0, in order.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const RunRecord&) {}
  virtual void write(const StartRecord&) {}
  virtual void write(const StepRecord&) {}
  virtual void write(const NoteRecord&) {}
  virtual void write(const DecisionRecord&) {}
  virtual void write(const NoiseRecord&) {}
  virtual void write(const ProfileRecord&) {}
  virtual void write(const TimelineRecord&) {}
  virtual void write(const EpochRecord&) {}
  virtual void write(const EvaluationProgress&) {}
  virtual void write(const HistogramRecord&) {}
  virtual void write(const ImageRecord&) {}
  virtual void write(const Summary&) {}
};

enum class ProgressStyle { automatic, bar, lines, off };  // automatic: bar on a terminal
std::span<const Named<ProgressStyle>> names_of(ProgressStyle);

/// metrics.jsonl, one flushed line per record, starts.jsonl, decisions.jsonl and timeline.jsonl, if
/// there are records for them, and summary.json, which is written under a temporary name and
/// renamed; it has the starts, too. What was lost before a start is what this sink has removed.
/// Step records only if requested. Makes the folder, and removes an earlier run's files of these
/// names. Numbers that are not finite become null.
/// @param goes_on_after the step from which the run continues: records up to it stay, including the
///        run's record; later and incomplete ones are removed. With another number of ranks the run
///        has a further record of its own, which describes what follows.
/// @param epoch_open the epoch that ended with that step will be recorded again
/// @throws Error{output}
std::unique_ptr<Sink> make_folder_sink(const std::string& folder, bool step_records,
                                       std::optional<StepId> goes_on_after = {},
                                       bool epoch_open = false);

/// An events.out.tfevents.* file for TensorBoard: a scalar for every number of the records, the
/// config and notes as text, histograms, images. Its name sorts after those of earlier starts of
/// the run; TensorBoard then forgets what they have for steps after `goes_on_after`.
/// @param default_config_json settings that differ from these come first in the table of runs
/// @throws Error{output}
std::unique_ptr<Sink> make_event_sink(const std::string& folder, bool step_records,
                                      const std::string& default_config_json,
                                      std::optional<StepId> goes_on_after = {});

/// Progress on stderr and the final table on stdout. A bar only if stderr is a terminal. Files get
/// no control characters other than newlines.
/// @throws Error{output} when the table cannot be written
std::unique_ptr<Sink> make_console_sink(ProgressStyle style);

/// Passes every record to each of `sinks`.
std::unique_ptr<Sink> make_fan_out(std::vector<std::unique_ptr<Sink>> sinks);

}  // namespace eqt::metrics
