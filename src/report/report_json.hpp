// SPDX-License-Identifier: Apache-2.0
// The report as JSON.

#pragma once

#include <string>
#include <vector>

#include "report/group.hpp"
#include "report/table.hpp"

namespace eqt::report {

/// One document: "schema", "groups" (label, seeds, state, settings that differ, figures with mean,
/// deviation and count in the units of summary.json, runs), "tables" (the published ones), "plots"
/// (their files) and "warnings".
std::string as_json(const std::vector<Group>& groups, const std::vector<Table>& published,
                    const std::vector<std::string>& plots,
                    const std::vector<std::string>& warnings);

}  // namespace eqt::report
