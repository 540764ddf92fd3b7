// SPDX-License-Identifier: Apache-2.0
// Files of labelled texts, row by row: CSV, TSV and JSON lines.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

enum class RowFormat {
  csv,  // RFC 4180: fields between commas; in quotes they may hold commas, line ends and "". Spaces
        // around quotes do not count.
  tsv,  // fields between tabs; a quote is a character like others
  json_lines  // an object a line, with "label" and "text"; other members are skipped
};

/// The format of a file by the ending of its name: .csv, .tsv, .jsonl.
std::optional<RowFormat> format_of_rows(const std::filesystem::path& file);

struct Row {
  std::string label;
  std::string text;        // of all columns of text, with spaces between them
  std::uint64_t line = 0;  // where it begins, from 1
};

/// The first row of CSV or TSV says what the columns are.
struct Heading {
  std::string label;                // the column with the class
  std::vector<std::string> texts;   // those with text
  std::vector<std::string> unread;  // others
};

/// True for the names that a column with the class may have: label, class, class index, category,
/// sentiment, target. Upper case, `_` and `-` make no difference.
bool names_class(std::string_view column);

/// True for the column of row numbers that pandas writes: without a name, or "Unnamed: 0".
bool names_index(std::string_view column);

/// True for 0, 1, 2, ...: what pandas writes above columns that have no names.
bool counts_columns(std::span<const std::string> fields);

inline constexpr std::size_t kLongestRow = std::size_t{1} << 20;    // [bytes] of texts
inline constexpr std::size_t kMostFields = std::size_t{1} << 20;    // of a row
inline constexpr std::size_t kLongestTableRow = kLongestRow << 6u;  // [bytes] of numbers

/// Calls `take` with the fields of each row and the line where it begins, in order; an empty line
/// is one empty field. Holds one row in memory. All readers of this file take LF, CR LF and CR as
/// the end of a line and skip a byte order mark of UTF-8.
/// @param longest [bytes] of a row
/// @throws Error{data} with file and line: for a file that cannot be read or is UTF-16, quotes that
/// do not match, and longer rows
void read_fields(const std::filesystem::path& file, RowFormat format, std::size_t longest,
                 const std::function<void(std::vector<std::string>&&, std::uint64_t)>& take);

/// Calls `take` for each labelled text in order, except for empty lines. Holds one row in memory.
///
/// The first row of CSV or TSV is a heading if it has names_class() and either stands first, behind
/// an index at most, or beside a column of text (text, review, sentence, message). Then all columns
/// of text are the text, or all others if none is called so. Without a heading the class comes
/// first. Members of JSON lines have the same names.
/// @return the heading of CSV or TSV, if there is one
/// @throws Error{data} with file and line: as read_fields(), for a heading with two columns for the
/// class or with pandas' numbers, rows of another number of fields, rows longer than kLongestRow,
/// invalid JSON, members that are missing or of another type
std::optional<Heading> read_rows(const std::filesystem::path& file, RowFormat format,
                                 const std::function<void(Row&&)>& take);

/// Calls `take` for each line of a text, without its end. Holds one line in memory.
/// @throws Error{data} as read_rows(), for lines longer than kLongestRow too
void read_lines(const std::filesystem::path& file,
                const std::function<void(std::string_view)>& take);

/// Reads standard input as read_lines() reads a file.
void read_standard_input(const std::function<void(std::string_view)>& take);

}  // namespace eqt::data
