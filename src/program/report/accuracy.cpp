// SPDX-License-Identifier: Apache-2.0
// Table 4 of the ElastiQuant presentation: test accuracy by scheme.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "report/paper_tables.hpp"
#include "report/quantities.hpp"
#include "report/values.hpp"

namespace eqt::report {
using figures::Cell;
using figures::Column;
using figures::number_cell;
using figures::spread_cell;
using figures::text_cell;

namespace {

using Type = Column::Type;

struct AccuracyRow {
  const Group* group;
  std::string network, data, scheme, tuning;
};

/// The published row of the same network, data and scheme (for DGC also the same ratio) with the
/// nearest number of boards.
const PublishedRow* published_of(const AccuracyRow& row) {
  const PublishedRow* nearest = nullptr;
  double distance = 0;
  for (const PublishedRow& published : published_table("accuracy").rows) {
    if (published.at("network") != row.network || published.at("data") != row.data ||
        published.at("scheme") != row.scheme ||
        (row.scheme == "DGC" && published.at("tune") != row.tuning))
      continue;
    const double found =
        std::abs(*published_number(published, "boards") - row.group->first().ranks);
    if (nearest == nullptr || found < distance) {
      nearest = &published;
      distance = found;
    }
  }
  return nearest;
}

std::vector<Cell> cells_of(const AccuracyRow& row) {
  const PublishedRow* published = published_of(row);
  const auto number = [&](const char* column) {
    return published != nullptr ? published_number(*published, column) : Figure();
  };
  const Group& group = *row.group;
  return {text_cell(row.network),
          text_cell(row.data + pixels_of(row.group->first())),
          text_cell(row.scheme),
          text_cell(row.tuning),
          number_cell(group.first().ranks, {0}),
          number_cell(static_cast<double>(group.runs.size()), {0}),
          spread_cell(group.spread(test_accuracy), kPercent, 100),
          number_cell(number("accuracy"), kPercent),
          number_cell(number("boards"), {0}),
          text_cell(published != nullptr ? published->at("note") : ""),
          text_cell(group.label)};
}

}  // namespace

Table accuracy_table(const std::vector<Group>& groups) {
  Table table{
      "accuracy",
      "Test accuracy, ours and published",
      {{"network", "network"},
       {"data", "data"},
       {"scheme", "scheme"},
       {"tuning", "tune"},
       {"ranks", "boards", Type::number},
       {"seeds", "seeds", Type::number},
       {"test_accuracy", "ours [%]", Type::spread},
       {"published_percent", "published [%]", Type::number},
       {"published_boards", "its boards", Type::number},
       {"note", "note"},
       {"run", "run"}},
      {},
      {"A published value is that of the same network, data and scheme with the nearest "
       "number of boards, if there is one. Runs by allreduce: those of gossip have their own "
       "table."}};
  std::vector<AccuracyRow> rows;
  for (const Group& group : groups) {
    const Run& run = group.first();
    if (!run.algorithm.empty() && run.algorithm != "allreduce") continue;  // none was published
    rows.push_back({&group, paper_network(run.model), paper_data(run.dataset),
                    paper_scheme(run, "FP-SGD"), paper_tuning(run)});
  }
  std::ranges::stable_sort(rows, {}, [](const AccuracyRow& row) {
    return std::tuple(row.network, row.data, row.scheme, row.tuning, row.group->first().ranks);
  });
  for (const AccuracyRow& row : rows) table.rows.push_back(cells_of(row));
  return table;
}

}  // namespace eqt::report
