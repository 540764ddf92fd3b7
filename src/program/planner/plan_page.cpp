// SPDX-License-Identifier: Apache-2.0
// The page of a plan, in the style of reports.

#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "metrics/gnuplot.hpp"
#include "metrics/output_file.hpp"
#include "planner/plan_tables.hpp"
#include "report/draw.hpp"
#include "report/page.hpp"

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

report::Cell cell_of(const analyze::Row& row, const analyze::Column& column) {
  const auto found = row.find(column.key);
  if (found == row.end() || found->is_null()) return report::number_cell({}, {});
  if (found->is_number_float())
    return report::number_cell(found->get<double>(), {.significant = column.digits});
  if (found->is_number()) return report::number_cell(found->get<double>(), {.significant = 9});
  return report::text_cell(found->get<std::string>());
}

report::Table table_of(const PlanTable& plan) {
  report::Table table;
  table.name = plan.name;
  table.caption = plan.caption;
  std::string remarks;
  for (const std::string& remark : plan.remarks) remarks += (remarks.empty() ? "" : " ") + remark;
  if (!remarks.empty()) table.notes.push_back(remarks);
  for (const analyze::Column& column : plan.columns) {
    const bool is_text = std::ranges::any_of(plan.rows, [&](const analyze::Row& row) {
      const auto found = row.find(column.key);
      return found != row.end() && found->is_string();
    });
    table.columns.push_back(
        {.key = column.key,
         .head = column.title,
         .type = is_text ? report::Column::Type::text : report::Column::Type::number});
  }
  for (const analyze::Row& row : plan.rows) {
    std::vector<report::Cell> cells;
    for (const analyze::Column& column : plan.columns) cells.push_back(cell_of(row, column));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

void write_page(const std::string& path, const Plans& plans, const ClusterFile& file,
                const std::vector<std::string>& notes) {
  report::Page page;
  page.title = "A plan for " + std::to_string(file.cluster.ranks()) + " ranks";
  page.warnings = answer_of(plans, file);
  for (const PlanTable& table : tables_of(plans, file)) page.results.push_back(table_of(table));
  page.results.front().notes.insert(page.results.front().notes.end(), notes.begin(), notes.end());
  if (!metrics::plot_available()) {
    page.warnings.emplace_back(
        "No plots: gnuplot was not found; install it (Debian: gnuplot-nox) and plan again.");
  } else {
    const DrawingFolder folder;
    for (report::Drawing& drawing : drawings_of(plans, file)) {
      const fs::path svg = folder.path() / (drawing.name + ".svg");
      report::draw_file(drawing, svg.string());
      std::string text = read_whole_file(
          svg, {.what = "a drawing", .max_bytes = 64 << 20, .remedy = "plan again"});
      page.pictures.push_back({std::move(drawing), std::move(text)});
    }
  }
  metrics::write_atomically(path, report::as_html(page));
}

}  // namespace eqt::planner
