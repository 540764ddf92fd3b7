// SPDX-License-Identifier: Apache-2.0
// Plans as rows: the same in the text, in JSON and on the page. Private to the room.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "figures/rows.hpp"
#include "planner/plans.hpp"

namespace eqt::planner {

struct PlanTable {
  std::string name;     // letters and hyphens
  std::string caption;  // one sentence
  std::vector<figures::Row> rows;
  std::vector<figures::RowColumn> columns;  // the first one names the row
  std::vector<std::string> remarks{};       // on columns
};

/// Returns the tables of schemes on the whole cluster, of epochs by ranks, and, where prices or
/// watts are known, of the plans that nothing beats. Keeps pointers into `plans`.
std::vector<PlanTable> tables_of(const Plans& plans, const ClusterFile& file);

/// All figures of a plan.
figures::Row row_of(const PlannedRun& run);

/// "1.23 s", "16.2 min", "3.4 h", "2.1 days".
std::string duration(double seconds);

/// The answer in one sentence.
std::string first_sentence(const Plans& plans, const ClusterFile& file);

/// Returns what a reader is told first: on which links compression pays and first_sentence(), which
/// comes first where it names one board alone.
std::vector<std::string> answer_of(const Plans& plans, const ClusterFile& file);

}  // namespace eqt::planner
