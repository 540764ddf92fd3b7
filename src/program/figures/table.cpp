// SPDX-License-Identifier: Apache-2.0
#include "figures/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "figures/text.hpp"

namespace eqt::figures {
namespace {

bool is_number(const Column& column) { return column.type != Column::Type::text; }

std::vector<std::size_t> widths_of(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    widths.push_back(width_of(table.columns[i].head));
    for (const auto& row : table.rows) widths[i] = std::max(widths[i], width_of(row[i].text));
  }
  return widths;
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

std::string csv_number(Figure value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace

std::string number_text(double value, Digits digits) {
  if (digits.after_point >= 0) return fmt::format("{:.{}f}", value, digits.after_point);
  return fmt::format("{:.{}g}", value, digits.significant);
}

Cell text_cell(std::string text) {
  return {text.empty() ? std::string(kNothing) : std::move(text)};
}

Cell number_cell(Figure value, Digits digits, double scale) {
  if (!value) return {kNothing};
  return {number_text(*value * scale, digits), value};
}

Cell spread_cell(const Spread& spread, Digits digits, double scale) {
  if (spread.known == 0) return {kNothing};
  Cell cell{number_text(spread.mean * scale, digits), spread.mean, spread.deviation,
            spread.standard_error(), spread.known};
  if (spread.deviation)
    cell.text = *spread.deviation > 0
                    ? measured_text(spread.mean * scale, *spread.deviation * scale)
                    : cell.text + " ± 0";
  if (spread.known < spread.asked)
    cell.text += fmt::format(" ({} of {})", spread.known, spread.asked);
  return cell;
}

Cell error_cell(const Spread& spread, double scale) {
  const Figure error = spread.standard_error();
  if (!error) return {kNothing};
  return {*error > 0 ? deviation_text(*error * scale) : "0", error};
}

void drop_empty_columns(Table& table) {
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    const auto is_empty = [&](const auto& row) { return !row[i].value; };
    if (!is_number(table.columns[i]) || !std::ranges::all_of(table.rows, is_empty)) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    table.columns.erase(table.columns.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
}

std::string as_text(const Table& table) {
  const std::vector<std::size_t> widths = widths_of(table);
  std::string text = table.caption + "\n\n";
  const auto add_line = [&](auto cell_text) {
    std::string line;
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      line += fmt::format("{}{}", i == 0 ? "" : "  ",
                          padded(cell_text(i), widths[i], is_number(table.columns[i])));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line([&](std::size_t i) { return table.columns[i].head; });
  for (const auto& row : table.rows) add_line([&](std::size_t i) { return row[i].text; });
  if (!table.notes.empty()) text += "\n";
  for (const std::string& note : table.notes) text += note + "\n";
  return text;
}

std::string as_csv(const Table& table) {
  std::string csv;
  const auto add = [&](std::size_t i, const std::string& field) {
    csv += (i == 0 ? "" : ",") + field;
  };
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    add(i, csv_text(column.key));
    if (column.type != Column::Type::spread) continue;
    for (const char* ending : {"_deviation", "_standard_error", "_count"})
      csv += ',' + csv_text(column.key + ending);
  }
  csv += '\n';
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const bool number = is_number(table.columns[i]);
      add(i, number ? csv_number(row[i].value) : csv_text(row[i].text));
      if (table.columns[i].type != Column::Type::spread) continue;
      csv += fmt::format(",{},{},{}", csv_number(row[i].deviation),
                         csv_number(row[i].standard_error), row[i].count);
    }
    csv += '\n';
  }
  return csv;
}

std::string as_markdown(const Table& table) {
  std::string text = markdown_text(table.caption) + "\n\n|";
  for (const Column& column : table.columns) text += ' ' + markdown_text(column.head) + " |";
  text += "\n|";
  for (const Column& column : table.columns) text += is_number(column) ? "--:|" : "---|";
  for (const auto& row : table.rows) {
    text += "\n|";
    for (const Cell& cell : row) text += ' ' + markdown_text(cell.text) + " |";
  }
  text += '\n';
  for (const std::string& note : table.notes) text += '\n' + markdown_text(note) + '\n';
  return text;
}

std::string as_latex(const Table& table) {
  std::string text =
      "\\begin{table}\n\\caption{" + latex_text(table.caption) + "}\n\\begin{tabular}{";
  for (const Column& column : table.columns) text += is_number(column) ? 'r' : 'l';
  text += "}\n\\hline\n";
  const auto add_line = [&](auto cell_text) {
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      text += (i == 0 ? "" : " & ") + latex_text(cell_text(i));
    text += " \\\\\n";
  };
  add_line([&](std::size_t i) { return table.columns[i].head; });
  text += "\\hline\n";
  for (const auto& row : table.rows) add_line([&](std::size_t i) { return row[i].text; });
  text += "\\hline\n\\end{tabular}\n";
  for (const std::string& note : table.notes) text += fmt::format("\n{}\n", latex_text(note));
  return text + "\\end{table}\n";
}

std::string as_html(const Table& table) {
  std::string html = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"t-{0}\">\n"
      "<table>\n<caption id=\"t-{0}\"><span>{1}</span></caption>\n<thead><tr>",
      html_text(table.name), html_text(table.caption));
  for (const Column& column : table.columns)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", is_number(column) ? " class=\"n\"" : "",
                        html_text(column.head));
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* kind = is_number(table.columns[i]) ? " class=\"n\"" : "";
      html += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", html_text(row[i].text))
                     : fmt::format("<td{}>{}</td>", kind, html_text(row[i].text));
    }
    html += "</tr>\n";
  }
  html += "</tbody>\n</table>\n</div>\n";
  for (const std::string& note : table.notes) html += "<p>" + html_text(note) + "</p>\n";
  return html;
}

}  // namespace eqt::figures
