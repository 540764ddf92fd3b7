// SPDX-License-Identifier: Apache-2.0
// The page of a plan, in the style of reports.

#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "figures/draw.hpp"
#include "figures/gnuplot.hpp"
#include "figures/page.hpp"
#include "metrics/output_file.hpp"
#include "planner/plan_tables.hpp"

namespace eqt::planner {
namespace {

namespace fs = std::filesystem;

/// gnuplot's files, until they are in the page.
class DrawingFolder {
 public:
  DrawingFolder() {
    std::string name = (fs::temp_directory_path() / "equant-plan.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      fail(Kind::output, "plan: cannot make a folder in {}; set TMPDIR to one that can be written",
           fs::temp_directory_path().string());
    path_ = name;
  }
  ~DrawingFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  DrawingFolder(const DrawingFolder&) = delete;
  DrawingFolder& operator=(const DrawingFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

figures::Cell cell_of(const figures::Row& row, const figures::RowColumn& column) {
  const auto found = row.find(column.key);
  if (found == row.end() || found->is_null()) return figures::number_cell({}, {});
  if (found->is_number_float())
    return figures::number_cell(found->get<double>(), {.significant = column.digits});
  if (found->is_number()) return figures::number_cell(found->get<double>(), {.significant = 9});
  return figures::text_cell(found->get<std::string>());
}

figures::Table table_of(const PlanTable& plan) {
  figures::Table table;
  table.name = plan.name;
  table.caption = plan.caption;
  std::string remarks;
  for (const std::string& remark : plan.remarks) remarks += (remarks.empty() ? "" : " ") + remark;
  if (!remarks.empty()) table.notes.push_back(remarks);
  for (const figures::RowColumn& column : plan.columns) {
    const bool is_text = std::ranges::any_of(plan.rows, [&](const figures::Row& row) {
      const auto found = row.find(column.key);
      return found != row.end() && found->is_string();
    });
    table.columns.push_back(
        {.key = column.key,
         .head = column.title,
         .type = is_text ? figures::Column::Type::text : figures::Column::Type::number});
  }
  for (const figures::Row& row : plan.rows) {
    std::vector<figures::Cell> cells;
    for (const figures::RowColumn& column : plan.columns) cells.push_back(cell_of(row, column));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

void write_page(const std::string& path, const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes) {
  figures::Page page;
  page.title = "A plan for " + std::to_string(file.cluster.ranks()) + " ranks";
  page.warnings = answer_of(plans, file);
  for (const PlanTable& table : tables_of(plans, file)) page.results.push_back(table_of(table));
  page.results.front().notes.insert(page.results.front().notes.end(), notes.begin(), notes.end());
  if (!figures::plot_available()) {
    page.warnings.emplace_back(
        "No plots: gnuplot was not found; install it (Debian: gnuplot-nox) and plan again.");
  } else {
    const DrawingFolder folder;
    for (figures::Drawing& drawing : drawings_of(plans, file)) {
      const fs::path svg = folder.path() / (drawing.name + ".svg");
      figures::draw_file(drawing, svg.string());
      std::string text = read_whole_file(
          svg, {.what = "a drawing", .max_bytes = 64 << 20, .remedy = "plan again"});
      page.pictures.push_back({std::move(drawing), std::move(text)});
    }
  }
  metrics::write_atomically(path, figures::as_html(page));
}

}  // namespace eqt::planner
