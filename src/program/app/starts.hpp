// SPDX-License-Identifier: Apache-2.0
// The starts of a run: starts.jsonl in its folder has a line for each, on the host of rank 0.

#pragma once

#include <string>
#include <vector>

#include "app/resume.hpp"
#include "comm/communicator.hpp"
#include "metrics/records.hpp"

namespace eqt::app {

/// Describes this start, and what was lost before it by what rank 0's folder has recorded: steps
/// after the one from which the run continues. Before the records are opened, which removes those.
/// Collective. @return a record on rank 0, another on the others
metrics::StartRecord describe_start(const std::string& run_folder, const Resume* resume,
                                    comm::Communicator& comm);

/// Adds a start to those of `run_folder`, or begins with it if the run does.
/// @return all of them. A file that cannot be read counts as none.
/// @throws Error{output}
std::vector<metrics::StartRecord> note_start(const std::string& run_folder,
                                             const metrics::StartRecord& start);

}  // namespace eqt::app
