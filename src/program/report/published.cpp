// SPDX-License-Identifier: Apache-2.0
#include "report/published.hpp"

#include <charconv>
#include <functional>

#include "core/error.hpp"
#include "report/published_data.hpp"

namespace eqt::report {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find(separator)) != std::string_view::npos;
       text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

/// "# what: how".
void take_comment(std::string_view line, PublishedTable& table) {
  line.remove_prefix(2);
  const std::size_t colon = line.find(": ");
  EQT_CHECK(colon != std::string_view::npos, "published table: \"{}\"", line);
  const std::string what(line.substr(0, colon)), how(line.substr(colon + 2));
  if (what == "source") {
    table.source = how;
  } else {
    table.conditions.emplace_back(what, how);
  }
}

}  // namespace

PublishedTable parse_published(std::string_view text) {
  PublishedTable table;
  std::vector<std::string_view> header;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line.starts_with("# ")) {
      take_comment(line, table);
      continue;
    }
    const std::vector<std::string_view> fields = split(line, ',');
    if (header.empty()) {
      header = fields;
      continue;
    }
    EQT_CHECK(fields.size() == header.size(), "published table: {} columns, \"{}\"", header.size(),
              line);
    PublishedRow& row = table.rows.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i)
      row[std::string(header[i])] = std::string(fields[i]);
  }
  return table;
}

const PublishedTable& published_table(std::string_view name) {
  static const std::map<std::string, PublishedTable, std::less<>> tables = {
      {"scalability", parse_published(kPublishedScalability)},
      {"accuracy", parse_published(kPublishedAccuracy)},
      {"decentralised", parse_published(kPublishedDecentralised)}};
  const auto found = tables.find(name);
  EQT_CHECK(found != tables.end(), "no published table {}", name);
  return found->second;
}

Figure published_number(const PublishedRow& row, std::string_view column) {
  const auto found = row.find(column);
  EQT_CHECK(found != row.end(), "published table: no column {}", column);
  const std::string& field = found->second;
  if (field.empty()) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  EQT_CHECK(error == std::errc() && end == field.data() + field.size(), "not a number: {}", field);
  return value;
}

}  // namespace eqt::report
