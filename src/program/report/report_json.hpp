// SPDX-License-Identifier: Apache-2.0
// The report as JSON.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "figures/table.hpp"
#include "report/group.hpp"

namespace eqt::report {

using figures::Table;

inline constexpr const char* kReportFile = "report.json";

/// A file of the report's folder, and the hash of what is in it; "" while the report is written.
struct WrittenFile {
  std::string name, hash;
};

/// Those of `names` that are in the folder. @throws Error{data} for one that cannot be read
std::vector<WrittenFile> written_files(const std::filesystem::path& folder,
                                       const std::vector<std::string>& names);

/// @throws Error{usage} for a file of these names that is not as a report has left it, by the
/// folder's report.json; one of an earlier version does not say, and all are as they were
void require_own_files(const std::filesystem::path& folder, const std::vector<std::string>& names);

/// One document: "schema", "groups" (label, seeds, state, settings that differ, figures with mean,
/// deviation and count in the units of summary.json, runs), "tables" (tests of differences, and the
/// published ones that were asked for), "plots" (their files), "files" (all, by name) and
/// "warnings".
std::string as_json(const std::vector<Group>& groups, const std::vector<Table>& tables,
                    const std::vector<std::string>& plots, const std::vector<WrittenFile>& files,
                    const std::vector<std::string>& warnings);

}  // namespace eqt::report
