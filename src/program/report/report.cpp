// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "figures/draw.hpp"
#include "figures/page.hpp"
#include "figures/text.hpp"
#include "metrics/output_file.hpp"
#include "report/comparison.hpp"
#include "report/decisions.hpp"
#include "report/evaluation.hpp"
#include "report/grades.hpp"
#include "report/group.hpp"
#include "report/paper_tables.hpp"
#include "report/planned.hpp"
#include "report/read_run.hpp"
#include "report/report_json.hpp"
#include "report/starts.hpp"
#include "report/timeline.hpp"

namespace eqt::report {
using figures::as_csv;
using figures::as_html;
using figures::as_latex;
using figures::as_markdown;
using figures::as_text;
using figures::draw_all;
using figures::Drawn;
using figures::Page;

namespace {

namespace fs = std::filesystem;

/// One process computed for all ranks, so its seconds are nobody's.
void forget_seconds(Run& run) {
  auto none = metrics::in_order({});
  none.fill(std::numeric_limits<double>::quiet_NaN());
  const metrics::PhaseSeconds never = metrics::from_order(none);
  run.outcome.step_seconds = never;
  run.outcome.wall_seconds = run.outcome.images_per_second = {};
  run.pauses.clear();
  for (StepLosses& losses : run.step_losses) losses.longest = 0;
  for (Epoch& epoch : run.epochs) {
    epoch.seconds = never;
    epoch.images_per_second = {};
  }
}

/// Runs are called by their groups everywhere, and by their seeds where these have several.
void label_runs(const std::vector<Group>& groups, std::vector<Run>& runs) {
  for (const Group& group : groups)
    for (Run& run : runs)
      if (std::ranges::find(group.runs, &run) != group.runs.end())
        run.label = group.runs.size() == 1 ? group.label
                                           : fmt::format("{}, seed {}", group.label, run.seed);
}

/// Reads all runs; those without records are left out and named.
std::vector<Run> read_runs(const std::vector<std::string>& folders,
                           std::vector<std::string>& warnings) {
  std::vector<Run> runs;
  for (const std::string& folder : run_folders(folders)) {
    Run run = read_run(folder);
    if (run.simulated) forget_seconds(run);
    if (is_empty(run)) {
      warnings.push_back(fmt::format("{} holds no record of a run and is left out.", run.folder));
    } else {
      runs.push_back(std::move(run));
    }
  }
  if (runs.empty())
    fail(Kind::data,
         "report: expected a run with records, found {} in which none had begun; wait for a first "
         "epoch",
         visible(folders.front()));
  return runs;
}

constexpr const char* kPageFile = "report.html";

void write_table(const fs::path& out, const Table& table) {
  metrics::write_atomically((out / (table.name + ".txt")).string(), as_text(table));
  metrics::write_atomically((out / (table.name + ".csv")).string(), as_csv(table));
  metrics::write_atomically((out / (table.name + ".md")).string(), as_markdown(table));
  metrics::write_atomically((out / (table.name + ".tex")).string(), as_latex(table));
}

/// All that a report writes, but report.json itself.
std::vector<std::string> file_names_of(const Page& page, const Drawings& drawings) {
  std::vector<std::string> names = {kPageFile};
  for (const auto* tables : {&page.results, &page.published, &page.background})
    for (const Table& table : *tables)
      for (const char* ending : {".txt", ".csv", ".md", ".tex"})
        names.push_back(table.name + ending);
  for (const Drawing& drawing : drawings.all)
    for (const char* ending : {".svg", ".png"}) names.push_back(drawing.name + ending);
  return names;
}

fs::path prepare_folder(const Request& request) {
  const fs::path out =
      request.out.empty() ? fs::path(request.folders.front()) / "report" : fs::path(request.out);
  std::error_code error;
  fs::create_directories(out, error);
  if (error)
    fail(Kind::output, "report: cannot make the folder {}: {}; choose another with --out",
         visible(out.string()), error.message());
  return out;
}

Page page_of(const std::vector<Group>& groups, const std::vector<Run>& runs,
             const std::vector<std::string>& warnings, const std::vector<Table>& published,
             const std::vector<Table>& tests) {
  Page page;
  page.title = fmt::format("{} of {} on {}",
                           runs.size() == 1 ? "One run" : fmt::format("{} runs", runs.size()),
                           runs.front().model, runs.front().dataset);
  page.warnings = warnings;
  page.results = {comparison_table(groups)};
  page.results.insert(page.results.end(), tests.begin(), tests.end());
  for (Table table : {planned_table(groups), targets_table(groups)})
    if (!table.rows.empty()) page.results.push_back(std::move(table));
  if (Table starts = starts_table(runs); !starts.rows.empty())
    page.results.push_back(std::move(starts));
  if (Table waiting = waiting_table(runs); !waiting.rows.empty())
    page.results.push_back(std::move(waiting));
  if (Table evaluations = evaluations_table(groups); !evaluations.rows.empty())
    page.results.push_back(std::move(evaluations));
  page.results.push_back(details_table(groups));
  page.published = published;
  page.background = {conditions_table(runs)};
  if (Table changes = grades_table(runs); !changes.rows.empty())
    page.background.push_back(std::move(changes));
  if (groups.size() > 1) page.background.push_back(settings_table(groups));
  page.background.push_back(runs_table(groups));
  return page;
}

struct Format {
  std::string_view name;
  std::string (*of)(const Table&);
  std::string_view remark;  // before a sentence between tables
};

constexpr std::array kFormats = {Format{"text", as_text, ""}, Format{"markdown", as_markdown, "- "},
                                 Format{"latex", as_latex, "% "}};

/// The text for a terminal: results without details, published tables, warnings, and the path of
/// the rest.
std::string answer_of(const Page& page, const fs::path& out, std::size_t plots,
                      const std::string& name) {
  const Format& format = *std::ranges::find(kFormats, name, &Format::name);
  std::string text;
  const auto add = [&](const Table& table) {
    text += fmt::format("{}{}", text.empty() ? "" : "\n", format.of(table));
  };
  for (std::size_t i = 0; i + 1 < page.results.size(); ++i) add(page.results[i]);
  for (const Table& table : page.published) add(table);
  if (!page.warnings.empty()) text += "\n";
  for (const std::string& warning : page.warnings)
    text += fmt::format("{}{}\n", format.remark, warning);
  return text + fmt::format("\n{}{}: report.html, tables as .txt, .csv, .md and .tex, {} plots\n",
                            format.remark, visible(out.string()), plots);
}

std::string write_report(Page page, const std::vector<Group>& groups,
                         const std::vector<Table>& told, Drawings drawings,
                         const Request& request) {
  const fs::path out = prepare_folder(request);
  const std::string report = (out / kReportFile).string();
  const std::vector<std::string> names = file_names_of(page, drawings);
  std::vector<std::string> all = names;
  all.emplace_back(kReportFile);
  if (!request.overwrite) require_own_files(out, all);
  // Another report that begins before this one ends, or after it was ended, finds its files.
  std::vector<WrittenFile> files;
  for (const std::string& name : names) files.push_back({name, ""});
  metrics::write_atomically(report, as_json(groups, told, {}, files, page.warnings));
  for (const auto* tables : {&page.results, &page.published, &page.background})
    for (const Table& table : *tables) write_table(out, table);
  Drawn drawn = draw_all(drawings.all, out.string());
  page.warnings.insert(page.warnings.end(), drawn.failed.begin(), drawn.failed.end());
  page.pictures = std::move(drawn.pictures);
  page.left_out = drawings.left_out;
  if (drawings.all.empty())  // no section of plots: said above
    page.warnings.insert(page.warnings.end(), page.left_out.begin(), page.left_out.end());
  metrics::write_atomically((out / kPageFile).string(), as_html(page));
  const std::string json =
      as_json(groups, told, drawn.files, written_files(out, names), page.warnings);
  metrics::write_atomically(report, json);
  return request.json ? json : answer_of(page, out, page.pictures.size(), request.format);
}

}  // namespace

std::vector<std::string> answer_formats() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) names.emplace_back(format.name);
  return names;
}

std::string make_report(const Request& request) {
  std::optional<StepRange> steps;
  if (!request.steps.empty()) steps = parse_steps(request.steps);
  std::vector<std::string> warnings;
  std::vector<Run> runs = read_runs(request.folders, warnings);
  check_one_data_set(runs);
  add_defaults(request.defaults, runs);
  const std::vector<Group> groups = groups_of(runs);
  label_runs(groups, runs);
  for (const std::string& warning : warnings_of(groups)) warnings.push_back(warning);
  const std::vector<Table> published = published_tables(request.tables, groups);
  const std::vector<Table> tests = significance_tables(groups, request.baseline);
  if (tests.empty() && !request.baseline.row.empty())
    warnings.push_back(fmt::format(
        "No row is tested against {}: a test needs several runs of both, with different results.",
        visible(request.baseline.row)));
  const Page page = page_of(groups, runs, warnings, published, tests);
  Drawings drawings = drawings_of(groups);
  draw_timelines(runs, steps, drawings);
  draw_interruptions(runs, drawings);
  draw_decisions(runs, drawings);
  draw_grades(runs, drawings);
  draw_adaptation(runs, drawings);
  std::vector<Table> told = tests;
  told.insert(told.end(), published.begin(), published.end());
  return write_report(page, groups, told, std::move(drawings), request);
}

}  // namespace eqt::report
