// SPDX-License-Identifier: Apache-2.0
// Files of labelled texts, row by row: CSV, TSV and JSON lines.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace eqt::text {

enum class RowFormat {
  csv,        // RFC 4180: fields between commas; in quotes they may hold commas, line ends and ""
  tsv,        // fields between tabs; a quote is a character like others
  json_lines  // an object a line, with "label" and "text"; other members are skipped
};

/// A row of CSV or TSV has the class first, then one column of text or more, which are read as one
/// text with spaces between them.
struct Row {
  std::string label;
  std::string text;
  std::uint64_t line = 0;  // where it begins, from 1
};

inline constexpr std::size_t kLongestRow = std::size_t{1} << 20;  // [bytes]

/// Calls `take` for each row in order. Empty lines, a byte order mark, and a first row of CSV or
/// TSV whose first field is `label` or `class`, are skipped. Holds one row in memory.
/// @throws Error{data} with file and line: for a file that cannot be read, quotes that do not
/// match, rows of one field, longer rows than kLongestRow, invalid JSON, members that are missing
/// or of another type
void read_rows(const std::filesystem::path& file, RowFormat format,
               const std::function<void(Row&&)>& take);

/// Calls `take` for each line of a text, without its end. Holds one line in memory.
/// @throws Error{data} as read_rows(), for lines longer than kLongestRow too
void read_lines(const std::filesystem::path& file,
                const std::function<void(std::string_view)>& take);

/// The same for standard input.
void read_standard_input(const std::function<void(std::string_view)>& take);

}  // namespace eqt::text
