// SPDX-License-Identifier: Apache-2.0
// What a run writes beside its steps: who takes the records, the first and the last of them.

#pragma once

#include <cstdint>
#include <memory>

#include "app/job.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "setup/build_run.hpp"

namespace eqt::app {

/// Records are written by rank 0; the others' sink takes nothing.
std::unique_ptr<metrics::Sink> make_sink(const Job& job);

/// Rank 0's config and first records: what runs, and what a reader should know of it.
/// @param memory_bytes the estimate for a rank
void write_start(const Job& job, const setup::Run& run, std::uint64_t memory_bytes,
                 metrics::Sink& sink);

/// Rank 0's results: the network, if there was one, then the summary, after which the run counts as
/// finished.
void write_end(const Job& job, const setup::Run& run, const metrics::Summary& summary,
               metrics::Sink& sink);

}  // namespace eqt::app
