// SPDX-License-Identifier: Apache-2.0
// The sinks of a run, and its first and last records.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/job.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "setup/build_run.hpp"

namespace eqt::app {

/// Rank 0 writes the records; the sink of other ranks drops them.
std::unique_ptr<metrics::Sink> make_sink(const Job& job);

/// Describes this start of a run. Collective; the same on all ranks but for the time.
metrics::StartRecord describe_start(const Job& job);

/// Writes the config and the first records on rank 0: the run, its start, and notes about it.
/// @param memory_bytes the estimate for a rank
void write_start(const Job& job, const setup::Run& run, const metrics::StartRecord& start,
                 std::uint64_t memory_bytes, metrics::Sink& sink);

/// Writes the results on rank 0: the network, if there was one, then the summary, which marks the
/// run as finished.
void write_end(const Job& job, const setup::Run& run, metrics::Summary summary,
               metrics::Sink& sink);

/// Writes a word for a command line, in quotes unless it is a plain word.
std::string shell_word(const std::string& text);

/// Says where the results of a finished run are, with three commands to go on with; several lines.
std::string next_commands(const Job& job, bool emulated);

}  // namespace eqt::app
