// SPDX-License-Identifier: Apache-2.0
// A table that can be written in five formats.

#pragma once

#include <string>
#include <vector>

#include "figures/statistics.hpp"

namespace eqt::figures {

struct Column {
  enum class Type { text, number, spread };
  std::string key;   // in CSV; a spread has KEY, KEY_deviation, KEY_standard_error and KEY_count
  std::string head;  // with unit, for people
  Type type = Type::text;
};

struct Cell {
  std::string text;  // for people; visible(), not escaped
  // Columns of numbers have these in CSV.
  Figure value{}, deviation{}, standard_error{};
  std::size_t count = 0;  // runs that have the figure, of columns of spreads
};

struct Table {
  std::string name;     // of its files: letters, digits and hyphens
  std::string caption;  // one sentence
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as columns; the first cell names the row
  std::vector<std::string> notes;       // sentences below it
};

/// Digits of a number: after the decimal point, or significant ones.
struct Digits {
  int after_point = -1;  // -1: `significant` digits instead
  int significant = 3;
};
inline constexpr Digits kPercent{2};  // of accuracies and the like

std::string number_text(double value, Digits digits);

inline constexpr const char* kNothing = "-";  // text of a cell without a value

Cell text_cell(std::string text);
/// "-" if empty.
Cell number_cell(Figure value, Digits digits, double scale = 1);
/// measured_text() of several runs, "69.4 ± 0.5"; of one "69.35", and "69.35 ± 0" where several
/// agree; "(1 of 2)" when some have no value. `scale` turns the figure into the unit of the
/// column's head; CSV has the figure itself.
Cell spread_cell(const Spread& spread, Digits digits, double scale = 1);
/// The standard error of a mean: its own digits, "-" of fewer than two runs.
Cell error_cell(const Spread& spread, double scale = 1);

/// Drops columns of numbers in which no row has a value.
void drop_empty_columns(Table& table);

/// Aligned for a terminal, caption and notes included.
std::string as_text(const Table& table);
/// A header line and the rows, numbers with all their digits (RFC 4180, newlines only).
std::string as_csv(const Table& table);
std::string as_markdown(const Table& table);
/// A table environment with a plain tabular, which needs no package.
std::string as_latex(const Table& table);
/// A <table> with caption and scopes.
std::string as_html(const Table& table);

}  // namespace eqt::figures
