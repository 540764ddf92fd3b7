// SPDX-License-Identifier: Apache-2.0
// Tables of numbers in text files.
//
// Format   text/rows.hpp. The first line is a header if none of its fields is a number, or if it
//          counts columns as pandas does, behind a first field without a name.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// Finite numbers, in memory as doubles.
struct CsvTable {
  std::string path;
  std::vector<std::string> names;  // of the columns, all different; empty: the file has no header
  std::size_t columns = 0;
  std::vector<double> values;    // (rows, columns)
  std::uint64_t first_line = 1;  // of the first row

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
  /// Says where a number is, for messages: 'FILE, line 3, column 2 "height"'.
  std::string place(std::size_t row, std::size_t column) const;
  /// Returns true where the first column has the row numbers that pandas writes: there are several
  /// names, names_index() is true of the first one, and its numbers are whole, not negative and all
  /// different.
  bool has_index() const;
};

/// Reads a whole file: at least one row, as many numbers in each.
/// @throws Error{data} naming the file, the line and the column of what is no finite number, is
/// missing or is too much, a first line that is neither surely a sample nor names: 0, 1, 2, ..., or
/// a name that two columns have or that is not UTF-8
CsvTable read_csv(const std::filesystem::path& file);

/// The columns that a list of names or numbers (from 1 on), separated by commas, stands for; if
/// it is empty, the one that names_class() finds, else the last one.
/// @throws Error{usage} naming `key` for a column that is not there or named twice, or an empty
/// list where several columns may be meant
std::vector<std::size_t> columns_called(const CsvTable& table, std::string_view list,
                                        std::string_view key);

}  // namespace eqt::data
