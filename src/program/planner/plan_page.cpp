// SPDX-License-Identifier: Apache-2.0
// The page of a plan, in the style of reports.

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "figures/draw.hpp"
#include "figures/gnuplot.hpp"
#include "figures/page.hpp"
#include "metrics/output_file.hpp"
#include "planner/plans.hpp"

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

/// Returns what the page calls time: minutes an epoch, or seconds a thousand samples.
double time_of(const PlannedRun& run) {
  return run.epoch_seconds ? *run.epoch_seconds / 60 : 1e3 * seconds_a_sample(run);
}
const char* time_unit(const Plans& plans) {
  return plans.whole[0].epoch_seconds ? "minutes an epoch" : "seconds a thousand samples";
}

/// Adds data in the script's last plot, which ends in a line.
void add_to_plot(figures::Drawing& drawing, const std::string& data, const std::string& plot) {
  const std::size_t at = drawing.script.rfind("plot ");
  drawing.script.insert(at, data);
  drawing.script.pop_back();
  drawing.script += ", \\\n" + plot + "\n";
}

/// Draws a row for each scheme: computing and waiting, which are the step, in the upper half; what
/// happens beside it, in the lower half.
figures::Drawing step_drawing(const Plans& plans) {
  struct Part {
    const char* name;
    double forecast::BoardUse::*seconds;
    bool upper, first;
  };
  constexpr Part kParts[] = {{"computing", &forecast::BoardUse::computing, true, true},
                             {"waiting", &forecast::BoardUse::waiting, true, false},
                             {"codec", &forecast::BoardUse::communicating, false, true},
                             {"link", &forecast::BoardUse::sending, false, false}};
  figures::Drawing drawing = {.name = "step", .title = "Seconds of a step by scheme"};
  std::vector<std::string> labels;
  std::string data, text, plot;
  double most = 0;
  for (const PlannedRun& run : plans.whole) {
    const forecast::BoardUse& use = slowest_boards(run);
    double sum = 0;
    data += fmt::format("{}", labels.size());
    text += fmt::format("{}{}:", labels.empty() ? "" : "; ", run.scheme);
    for (const Part& part : kParts) {
      if (part.first) sum = 0;
      data += fmt::format(" {:.9g} {:.9g}", sum, sum + use.*part.seconds);
      sum += use.*part.seconds;
      most = std::max(most, sum);
      text += fmt::format("{} {} {:.3g} s", part.seconds == kParts[0].seconds ? "" : ",", part.name,
                          use.*part.seconds);
    }
    data += "\n";
    labels.push_back(run.scheme);
  }
  for (std::size_t p = 0; p < std::size(kParts); ++p)
    plot += fmt::format(
        "{}$d using {}:1:{}:{}:($1{}):($1{}) with boxxyerror fs solid noborder lc rgb '{}' title "
        "\"{}\"",
        p == 0 ? "plot " : ", \\\n", 2 * p + 2, 2 * p + 2, 2 * p + 3,
        kParts[p].upper ? "-0.4" : "+0.02", kParts[p].upper ? "-0.02" : "+0.4", figures::colour(p),
        kParts[p].name);
  drawing.description =
      "Computing and waiting make the step. The work of the communication thread, codec, and its "
      "messages at the link's full rate are beside it; what computing hides of them is not waited "
      "for. " +
      text + ".";
  drawing.script = figures::frame(drawing.title, "seconds", "", figures::Key::above_right) +
                   figures::bar_rows(labels, most) + "$d << end\n" + data + "end\n" + plot + "\n";
  drawing.height = figures::height_of_bars(labels, 2);
  return drawing;
}

/// Nothing if no scheme has a rate.
std::optional<figures::Drawing> break_even_drawing(const Plans& plans) {
  figures::Bars bars = {.title = "Break-even rates with float32",
                        .unit = "Mb/s",
                        .logarithmic = true,
                        .series = {"faster on slower links"},
                        .groups = {}};
  std::string text;
  for (std::size_t s = 0; s < plans.whole.size(); ++s) {
    const double rate = plans.break_even[s];
    if (std::isinf(rate)) text += fmt::format(" {}: at any rate.", plans.whole[s].scheme);
    if (!std::isfinite(rate) || rate <= 0) continue;
    bars.groups.push_back({plans.whole[s].scheme, {rate}});
    text += fmt::format(" {}: below {:.3g} Mb/s.", plans.whole[s].scheme, rate);
  }
  if (bars.groups.empty()) return {};
  figures::Drawing drawing = figures::bars_drawing(bars);
  drawing.name = "break-even";
  drawing.description =
      "Rates of the slowest link below which a scheme is faster than float32." + text;
  return drawing;
}

/// Time against `cost` for all numbers of ranks, with the front.
figures::Drawing front_drawing(const Plans& plans, const std::string& name, const std::string& unit,
                               double (*cost)(const PlannedRun&), bool PlannedRun::Fronts::*on) {
  std::vector<figures::Curve> curves;
  std::vector<const PlannedRun*> front;
  std::vector<double> times, costs;
  for (const auto& runs : plans.by_ranks) {
    figures::Curve curve = {runs.front().scheme, {}};
    for (const PlannedRun& run : runs) {
      curve.points.emplace_back(cost(run), time_of(run));
      times.push_back(time_of(run));
      costs.push_back(cost(run));
      if (*run.pareto.*on) front.push_back(&run);
    }
    curves.push_back(std::move(curve));
  }
  std::ranges::sort(front, {}, [&](const PlannedRun* run) { return cost(*run); });
  figures::Drawing drawing = figures::curves_drawing({.title = "Time by " + name,
                                                      .x = unit,
                                                      .y = time_unit(plans),
                                                      .log_x = figures::wants_logarithm(costs),
                                                      .log_y = figures::wants_logarithm(times)},
                                                     curves);
  std::string data = "$front << end\n", text;
  for (const PlannedRun* const run : front) {
    data += fmt::format("{:.9g} {:.9g}\n", cost(*run), time_of(*run));
    text += fmt::format("{}{} on {} ranks: {:.4g} {}, {:.4g} {}", text.empty() ? "" : "; ",
                        run->scheme, run->ranks, time_of(*run), time_unit(plans), cost(*run), unit);
  }
  add_to_plot(drawing, data + "end\n",
              fmt::format("$front using 1:2 with steps lw 2 lc rgb '{}' dt '-' title \"front\"",
                          figures::kNeutral));
  drawing.name = name;
  drawing.description += " Nothing beats " + text + ".";
  return drawing;
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

figures::Drawing drawing_of(const Plans& plans) {
  std::vector<figures::Curve> curves;
  std::string data = "$least << end\n", text;
  for (const auto& runs : plans.by_ranks) {
    figures::Curve curve = {runs.front().scheme, {}};
    const auto most = crossover(runs);
    for (const PlannedRun& run : runs) {
      curve.points.emplace_back(run.ranks, time_of(run));
      if (run.ranks != most) continue;
      data += fmt::format("{} {:.9g}\n", run.ranks, time_of(run));
      text += fmt::format(" {}: more than {} make it slower.", run.scheme, run.ranks);
    }
    curves.push_back(std::move(curve));
  }
  figures::Drawing drawing = figures::curves_drawing({.title = "Plan by scheme and number of ranks",
                                                      .x = "ranks",
                                                      .y = time_unit(plans),
                                                      .log_x = true,
                                                      .log_y = true},
                                                     curves);
  drawing.name = "ranks";
  drawing.description += text;
  if (!text.empty())
    add_to_plot(drawing, data + "end\n",
                fmt::format("$least using 1:2 with points pt 6 ps 2 lw 2 lc rgb '{}' title \"more "
                            "make it slower\"",
                            figures::kNeutral));
  return drawing;
}

std::vector<figures::Drawing> drawings_of(const Plans& plans, const ClusterFile& file) {
  std::vector<figures::Drawing> drawings = {drawing_of(plans), step_drawing(plans)};
  if (auto rates = break_even_drawing(plans)) drawings.push_back(std::move(*rates));
  bool price = false, joules = false;
  for (const auto& runs : plans.by_ranks) {
    for (const PlannedRun& run : runs) {
      price = price || (run.pareto && run.pareto->price);
      joules = joules || (run.pareto && run.pareto->joules);
    }
  }
  if (price)
    drawings.push_back(front_drawing(
        plans, "price", file.currency, [](const PlannedRun& run) { return run.price; },
        &PlannedRun::Fronts::price));
  if (joules)
    drawings.push_back(front_drawing(
        plans, "energy", plans.whole[0].epoch_joules ? "kJ an epoch" : "J a sample",
        [](const PlannedRun& run) {
          return run.epoch_joules ? *run.epoch_joules / 1e3 : run.joules / run.samples;
        },
        &PlannedRun::Fronts::joules));
  return drawings;
}

}  // namespace eqt::planner
