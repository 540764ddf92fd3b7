// Where records go.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// Receives records on rank 0, in order.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const RunRecord&) {}
  virtual void write(const StepRecord&) {}
  virtual void write(const EpochRecord&) {}
  virtual void write(const Summary&) {}
};

enum class ProgressStyle { automatic, bar, lines, off };  // automatic: bar on a terminal

/// metrics.jsonl, one flushed line per record, and summary.json, written to a temporary name and
/// renamed. Step records only if asked for.
/// @throws Error{output}
std::unique_ptr<Sink> make_folder_sink(const std::string& folder, bool step_records);

/// Progress on stderr and the final table on stdout.
std::unique_ptr<Sink> make_console_sink(ProgressStyle style);

/// Hands every record to each of `sinks`.
std::unique_ptr<Sink> make_fan_out(std::vector<std::unique_ptr<Sink>> sinks);

}  // namespace eqt::metrics
