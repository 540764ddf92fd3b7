// SPDX-License-Identifier: Apache-2.0
// Tables of numbers in text files.
//
// Format   RFC 4180, "Common format for comma-separated values (CSV) files", without line breaks
//          inside fields. The first line is a header if none of its fields is a number.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// Finite numbers, in memory as doubles.
struct CsvTable {
  std::string path;
  std::vector<std::string> names;  // of the columns; empty: the file has no header
  std::size_t columns = 0;
  std::vector<double> values;  // (rows, columns)

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
  /// For messages: 'FILE, line 3, column 2 "height"'.
  std::string place(std::size_t row, std::size_t column) const;
};

/// Reads a whole file: at least one row, as many numbers in each.
/// @throws Error{data} naming the file, the line and the column of what is no finite number, is
/// missing or is too much
CsvTable read_csv(const std::filesystem::path& file);

/// The columns that a list of names or numbers (from 1 on), separated by commas, stands for; the
/// last column if it is empty.
/// @throws Error{usage} naming `key` for a column that is not there or named twice
std::vector<std::size_t> columns_called(const CsvTable& table, std::string_view list,
                                        std::string_view key);

}  // namespace eqt::data
