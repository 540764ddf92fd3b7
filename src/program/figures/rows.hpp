// SPDX-License-Identifier: Apache-2.0
// Answers that are JSON first: rows that are printed as lines of JSON or as a table of some of
// their members. Tables of runs with deviations, notes and files in five formats are those of
// table.hpp.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace eqt::figures {

using Row = nlohmann::ordered_json;

/// A column of the text table: numbers are right-aligned with `digits` significant ones, texts
/// left.
struct RowColumn {
  const char* key;  // of the row, "a/b" for a member of a member; absent and null print as "-"
  const char* title;
  int digits = 4;
};

/// `rows` as JSON, one a line, or as a table of `columns`; numbers that are not finite are null.
void print_rows(const std::vector<Row>& rows, const std::vector<RowColumn>& columns, bool json);

}  // namespace eqt::figures
