// SPDX-License-Identifier: Apache-2.0
#include "data/csv_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "data/files.hpp"
#include "data/text/rows.hpp"
#include "data/text/unicode.hpp"

namespace eqt::data {
namespace {

constexpr std::string_view kSpaces = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

/// The number that the whole text is, if it is one; infinite where it is too large for a double.
std::optional<double> number_of(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size() || error == std::errc::invalid_argument)
    return {};
  if (error == std::errc()) return value;
  return std::strtod(std::string(text).c_str(), nullptr);  // rounds to 0 or to infinity
}

/// A space and the column's name, if it has one.
std::string name_behind(const CsvTable& table, std::size_t column) {
  return table.names.empty() ? std::string() : fmt::format(" {}", shown(table.names[column]));
}

/// Takes the rows of a file into a table.
class Reader {
 public:
  explicit Reader(CsvTable& table) : table_(table) {}

  void take(std::vector<std::string>&& fields, std::uint64_t line) {
    for (std::string& field : fields) field = trimmed(field);
    if (fields.size() == 1 && fields[0].empty()) {
      // Blank lines may only end the file.
      if (empty_line_ == 0) empty_line_ = line;
      return;
    }
    if (empty_line_ != 0) refuse("found line {} empty", empty_line_);
    fields_ = std::move(fields);
    line_ = line;
    if (table_.columns > 0) return add_row();
    table_.columns = fields_.size();
    if (!is_header()) return add_row();
    require_usable_names();
    table_.names = fields_;
  }

  void finish() const {
    if (table_.columns == 0) refuse("found an empty file");
    if (table_.values.empty()) refuse("found a header alone");
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Kind::data,
         "{}: expected lines of finite numbers, separated by commas, after at most one line of "
         "names, {}; correct the line or leave it out",
         table_.path, fmt::format(format, std::forward<Args>(args)...));
  }

  /// True also where pandas has counted columns behind its index.
  bool is_header() const {
    if (counts_columns(fields_) && names_index(fields_.front())) return true;
    if (std::ranges::any_of(fields_,
                            [](const auto& field) { return number_of(field).has_value(); }))
      return require_no_counts();
    return true;
  }

  /// A sample 0, 1 is a likely one, longer ones are not.
  bool require_no_counts() const {
    constexpr std::size_t kFew = 2;
    if (fields_.size() > kFew && counts_columns(fields_))
      fail(
          Kind::data,
          "{}, line {}: expected a sample or names of columns, found 0, 1, 2, ... as pandas writes "
          "above columns without names; leave the line out, or write names above it if it is a "
          "sample",
          table_.path, line_);
    return false;
  }

  /// A run records the names in JSON, and columns are found by them where a table is predicted
  /// from.
  void require_usable_names() const {
    std::map<std::string_view, std::size_t> columns;
    for (std::size_t column = 0; column < fields_.size(); ++column) {
      if (!is_utf8(fields_[column]))
        fail(Kind::data,
             "{}, line {}: expected names of columns in UTF-8, found {} for column {}; save the "
             "table as UTF-8",
             table_.path, line_, shown(fields_[column]), column + 1);
      const auto [other, is_new] = columns.emplace(fields_[column], column);
      if (!is_new)
        fail(Kind::data,
             "{}, line {}: expected a name of its own for each column, found {} for columns {} and "
             "{}; rename one of them",
             table_.path, line_, shown(fields_[column]), other->second + 1, column + 1);
    }
  }

  void add_row() {
    if (fields_.size() != table_.columns)
      refuse("found {} fields in line {} and {} in the first", fields_.size(), line_,
             table_.columns);
    if (table_.values.empty()) table_.first_line = line_;
    for (std::size_t column = 0; column < fields_.size(); ++column) {
      const std::optional<double> value = number_of(fields_[column]);
      if (value && std::isfinite(*value)) {
        table_.values.push_back(*value);
        continue;
      }
      refuse("found {} in line {}, column {}{}", shown(fields_[column]), line_, column + 1,
             name_behind(table_, column));
    }
  }

  CsvTable& table_;
  std::vector<std::string> fields_;  // of the current line
  std::uint64_t line_ = 0;           // its number, from 1
  std::uint64_t empty_line_ = 0;     // the first one; 0: none so far
};

/// Its number from 0 on, if it has the column.
std::optional<std::size_t> column_called(const CsvTable& table, std::string_view name) {
  const auto named = std::ranges::find(table.names, name);
  if (named != table.names.end()) return static_cast<std::size_t>(named - table.names.begin());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool counts = error == std::errc() && end == name.data() + name.size();
  if (counts && number >= 1 && number <= table.columns) return number - 1;
  return {};
}

/// The one whose name says so, else the last one.
std::size_t target_column(const CsvTable& table, std::string_view key) {
  std::vector<std::size_t> named;
  for (std::size_t column = 0; column < table.names.size(); ++column)
    if (names_class(table.names[column])) named.push_back(column);
  if (named.empty()) return table.columns - 1;
  if (named.size() > 1)
    fail(Kind::usage,
         "{}: expected the column of the targets of {}, found {} and {}, which may both be it; set "
         "it to one of them",
         key, table.path, shown(table.names[named[0]]), shown(table.names[named[1]]));
  return named.front();
}

}  // namespace

std::string CsvTable::place(std::size_t row, std::size_t column) const {
  return fmt::format("{}, line {}, column {}{}", path, first_line + row, column + 1,
                     name_behind(*this, column));
}

bool CsvTable::has_index() const {
  if (names.size() < 2 || !names_index(names.front())) return false;
  std::vector<double> numbers;
  for (std::size_t row = 0; row < rows(); ++row) {
    numbers.push_back(at(row, 0));
    if (numbers.back() < 0 || numbers.back() != std::trunc(numbers.back())) return false;
  }
  std::ranges::sort(numbers);
  return std::ranges::adjacent_find(numbers) == numbers.end();
}

CsvTable read_csv(const std::filesystem::path& file) {
  CsvTable table;
  table.path = file.string();
  Reader reader(table);
  read_fields(file, RowFormat::csv, kLongestTableRow,
              [&](std::vector<std::string>&& fields, std::uint64_t line) {
                reader.take(std::move(fields), line);
              });
  reader.finish();
  return table;
}

std::vector<std::size_t> columns_called(const CsvTable& table, std::string_view list,
                                        std::string_view key) {
  if (list.empty()) return {target_column(table, key)};
  std::vector<std::size_t> columns;
  for (bool more = true; more;) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view name = trimmed(list.substr(0, end));
    const auto column = column_called(table, name);
    if (!column)
      fail(Kind::usage, "{}: expected names or numbers of columns of {}, which has {}, found {}",
           key, table.path, table.columns, shown(name));
    if (std::ranges::count(columns, *column) > 0)
      fail(Kind::usage, "{}: expected each column once, found {} twice", key, shown(name));
    columns.push_back(*column);
    more = end < list.size();
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return columns;
}

}  // namespace eqt::data
