// SPDX-License-Identifier: Apache-2.0
// The figures of published tables, as data files of this repository (published/*.csv).

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "figures/statistics.hpp"

namespace eqt::report {

using figures::Figure;

/// A line: column -> field.
using PublishedRow = std::map<std::string, std::string, std::less<>>;

struct PublishedTable {
  std::string source;                                           // its authors and number
  std::vector<std::pair<std::string, std::string>> conditions;  // as stated in the paper
  std::vector<PublishedRow> rows;
};

/// "scalability", "accuracy" or "decentralised". @throws Error{bug} for another one
const PublishedTable& published_table(std::string_view name);

/// Parses such a file: "# source: ..." and "# WHAT: ..." lines, a header line, rows without quotes.
/// @throws Error{bug} if a row has another number of fields than the header
PublishedTable parse_published(std::string_view text);

/// A field as a number; empty if the field is. @throws Error{bug} if it is not a number
Figure published_number(const PublishedRow& row, std::string_view column);

}  // namespace eqt::report
