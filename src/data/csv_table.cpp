// SPDX-License-Identifier: Apache-2.0
#include "data/csv_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "core/error.hpp"
#include "data/mapped_file.hpp"
#include "data/shown.hpp"

namespace eqt::data {
namespace {

constexpr std::size_t kMaxColumns = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
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

class Reader {
 public:
  Reader(std::string_view text, CsvTable& table) : rest_(text), table_(table) {
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  void read() {
    if (!next_line()) refuse("found an empty file");
    table_.columns = fields_.size();
    if (is_header()) {
      table_.names.assign(fields_.begin(), fields_.end());
    } else {
      add_row();
    }
    while (next_line()) add_row();
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

  /// Splits the next line into fields. Blank lines may only end the file.
  bool next_line() {
    if (rest_.find_first_not_of("\r\n \t") == std::string_view::npos) return false;
    ++line_;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (trimmed(line).empty()) refuse("found line {} empty", line_);
    split(line);
    return true;
  }

  void split(std::string_view line) {
    fields_.clear();
    for (bool more = true; more;) {
      if (fields_.size() == kMaxColumns)
        refuse("found more than {} in line {}", kMaxColumns, line_);
      line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
      fields_.emplace_back();
      const bool quoted = line.starts_with('"');
      if (quoted) take_quoted(line, fields_.back());
      const std::size_t end = std::min(line.find(','), line.size());
      const std::string_view bare = trimmed(line.substr(0, end));
      if (!quoted)
        fields_.back() = bare;
      else if (!bare.empty())
        refuse("found {} behind a quoted field in line {}", shown(bare), line_);
      more = end < line.size();
      line.remove_prefix(std::min(end + 1, line.size()));
    }
  }

  /// Takes a field in quotes off the line; two quotes stand for one.
  void take_quoted(std::string_view& line, std::string& field) const {
    std::size_t at = 1;
    for (;; ++at) {
      if (at >= line.size()) refuse("found a quote without an end in line {}", line_);
      if (line[at] == '"' && (at + 1 == line.size() || line[at + 1] != '"')) break;
      at += line[at] == '"' ? 1u : 0u;
      field += line[at];
    }
    line.remove_prefix(at + 1);
  }

  bool is_header() const {
    return std::ranges::none_of(
        fields_, [](const std::string& field) { return number_of(field).has_value(); });
  }

  void add_row() {
    if (fields_.size() != table_.columns)
      refuse("found {} fields in line {} and {} in the first", fields_.size(), line_,
             table_.columns);
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

  std::string_view rest_;
  CsvTable& table_;
  std::vector<std::string> fields_;  // of the current line
  std::size_t line_ = 0;             // its number, from 1
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

}  // namespace

std::string CsvTable::place(std::size_t row, std::size_t column) const {
  const std::size_t line = row + (names.empty() ? 1 : 2);
  return fmt::format("{}, line {}, column {}{}", path, line, column + 1,
                     name_behind(*this, column));
}

CsvTable read_csv(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  CsvTable table;
  table.path = file.string();
  Reader({reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()}, table)
      .read();
  return table;
}

std::vector<std::size_t> columns_called(const CsvTable& table, std::string_view list,
                                        std::string_view key) {
  if (list.empty()) return {table.columns - 1};
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
