// SPDX-License-Identifier: Apache-2.0
// Finds and reads run folders.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/run.hpp"

namespace eqt::report {

/// The run folders among `paths` and up to three levels below, sorted by name within a path, each
/// once. A run folder has config.json, metrics.jsonl or summary.json.
/// @throws Error{usage} for a path that is no folder, Error{data} for one without a run
std::vector<std::string> run_folders(const std::vector<std::string>& paths);

/// Reads a run, finished or not. A last line of metrics.jsonl that was cut off is left out with a
/// remark. Steps are skipped unless there is no epoch.
/// @throws Error{data} if a file is no JSON, of another schema or malformed
Run read_run(const std::string& folder);

/// Gives runs that lack a key, since an older program made them, its value in `defaults` (a config
/// with all keys, as JSON) if another of the runs has another value: such a key was added so that
/// older runs are those with the default. "": gives nothing.
void add_defaults(const std::string& defaults, std::vector<Run>& runs);

/// True if a run folder has no run record.
bool is_empty(const Run& run);

}  // namespace eqt::report
