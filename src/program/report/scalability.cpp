// SPDX-License-Identifier: Apache-2.0
// Table 3 of the ElastiQuant presentation: seconds of a step by number of boards.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "report/paper_tables.hpp"

namespace eqt::report {
using figures::Cell;
using figures::Column;
using figures::Digits;
using figures::number_cell;
using figures::spread_cell;
using figures::text_cell;

namespace {

using metrics::PhaseSeconds;
using Type = Column::Type;
constexpr Digits kSeconds{-1, 4}, kMinutes{2}, kRatio{2};
constexpr const char* kBaseline = "SGD";

struct ClusterRow {
  const Group* group;
  std::string network, scheme, shown_scheme;
  int boards;
  const PublishedRow* published = nullptr;

  Spread seconds(double PhaseSeconds::*phase) const {
    return group->spread([&](const Run& run) {
      return Figure(run.outcome.steps > 0 ? Figure(run.outcome.step_seconds.*phase) : Figure());
    });
  }
  Figure total() const {
    const Spread spread = seconds(&PhaseSeconds::total);
    return spread.known > 0 ? Figure(spread.mean) : Figure();
  }
};

const PublishedRow* published_of(const ClusterRow& row) {
  for (const PublishedRow& published : published_table("scalability").rows)
    if (published.at("network") == row.network && published.at("scheme") == row.scheme &&
        published.at("boards") == fmt::format("{}", row.boards))
      return &published;
  return nullptr;
}

/// Orders rows as the published schemes, then by boards. Rows that would look the same have a
/// label.
std::vector<ClusterRow> cluster_rows_of(const std::vector<Group>& groups) {
  std::vector<ClusterRow> rows;
  std::map<std::tuple<std::string, std::string, int>, int> alike;
  for (const Group& group : groups) {
    const Run& run = group.first();
    ClusterRow row{&group, paper_network(run.model), paper_scheme(run, kBaseline), "", run.ranks};
    row.published = published_of(row);
    ++alike[{row.network, row.scheme, row.boards}];
    rows.push_back(row);
  }
  for (ClusterRow& row : rows) {
    row.shown_scheme = row.scheme;
    if (alike[{row.network, row.scheme, row.boards}] > 1)
      row.shown_scheme += " (" + row.group->label + ")";
  }
  const auto order = [](const std::string& scheme) {
    const std::vector<std::string> kOrder = {kBaseline, "8-bit-ElastiQuant", "4-bit-ElastiQuant",
                                             "E-ElastiQuant"};
    return std::ranges::find(kOrder, scheme) - kOrder.begin();
  };
  std::ranges::stable_sort(rows, [&](const ClusterRow& a, const ClusterRow& b) {
    return std::tuple(a.network, order(a.scheme), a.scheme, a.boards) <
           std::tuple(b.network, order(b.scheme), b.scheme, b.boards);
  });
  return rows;
}

/// The change of T with more boards, relative to the row before with the same scheme.
Figure change_of(const ClusterRow& row, const ClusterRow* before) {
  if (before == nullptr || before->network != row.network || before->scheme != row.scheme ||
      before->boards >= row.boards || !row.total() || !before->total())
    return {};
  return *row.total() - *before->total();
}

/// T as a share of float32's on the same number of boards.
Figure against_baseline(const ClusterRow& row, const std::vector<ClusterRow>& rows) {
  for (const ClusterRow& other : rows)
    if (other.scheme == kBaseline && other.network == row.network && other.boards == row.boards &&
        row.total() && other.total())
      return *row.total() / *other.total();
  return {};
}

Figure published_against_baseline(const PublishedRow& row) {
  for (const PublishedRow& other : published_table("scalability").rows)
    if (other.at("scheme") == kBaseline && other.at("network") == row.at("network") &&
        other.at("boards") == row.at("boards"))
      return *published_number(row, "total") / *published_number(other, "total");
  return {};
}

std::vector<Cell> cells_of(const ClusterRow& row, const ClusterRow* before,
                           const std::vector<ClusterRow>& rows) {
  std::vector<Cell> cells = {text_cell(row.network), text_cell(row.shown_scheme),
                             number_cell(row.boards, {0})};
  for (double PhaseSeconds::*phase :
       {&PhaseSeconds::compute, &PhaseSeconds::encode, &PhaseSeconds::decode,
        &PhaseSeconds::transfer, &PhaseSeconds::total})
    cells.push_back(spread_cell(row.seconds(phase), kSeconds));
  cells.push_back(number_cell(change_of(row, before), kSeconds));
  cells.push_back(number_cell(against_baseline(row, rows), kRatio));
  for (const char* column : {"compute", "encode", "transmit", "total", "change"})
    cells.push_back(number_cell(
        row.published != nullptr ? published_number(*row.published, column) : Figure(), kMinutes));
  cells.push_back(number_cell(
      row.published != nullptr ? published_against_baseline(*row.published) : Figure(), kRatio));
  return cells;
}

}  // namespace

Table scalability_table(const std::vector<Group>& groups) {
  Table table{
      "scalability",
      "Scalability: seconds of a step here, minutes of an epoch as published",
      {{"network", "network"},
       {"scheme", "scheme"},
       {"boards", "boards", Type::number},
       {"compute_seconds", "Cp [s]", Type::spread},
       {"encode_seconds", "En [s]", Type::spread},
       {"decode_seconds", "De [s]", Type::spread},
       {"transfer_seconds", "Tx [s]", Type::spread},
       {"total_seconds", "T [s]", Type::spread},
       {"change_seconds", "Sp [s]", Type::number},
       {"total_against_sgd", "T / T of SGD", Type::number},
       {"published_compute_minutes", "published Cp [min]", Type::number},
       {"published_encode_minutes", "En [min]", Type::number},
       {"published_transfer_minutes", "Tx [min]", Type::number},
       {"published_total_minutes", "T [min]", Type::number},
       {"published_change_minutes", "Sp [min]", Type::number},
       {"published_total_against_sgd", "T / T of SGD", Type::number}},
      {},
      {"Cp computing, En encoding, De decoding (published: part of another column), Tx waiting for "
       "the network, T in total, Sp the change of T with more boards (negative: faster). Seconds "
       "are those of the slowest rank in each phase; T includes data and update. Published values "
       "are those of the same network, scheme and number of boards."}};
  const std::vector<ClusterRow> rows = cluster_rows_of(groups);
  for (std::size_t i = 0; i < rows.size(); ++i)
    table.rows.push_back(cells_of(rows[i], i == 0 ? nullptr : &rows[i - 1], rows));
  return table;
}

}  // namespace eqt::report
