// SPDX-License-Identifier: Apache-2.0
#include "report/decisions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>

#include "figures/colours.hpp"
#include "figures/script.hpp"
#include "figures/text.hpp"
#include "metrics/decisions.hpp"
#include "metrics/run_files.hpp"

namespace eqt::report {
using figures::colour;
using figures::colours;
using figures::first_of;
using figures::frame;
using figures::height_with_key;
using figures::kMaxCurves;
using figures::Line;
using figures::lines_script;
using figures::tail_of;
using figures::x_tics;

namespace {

constexpr std::size_t kMostRuns = 4;  // with a plot

/// The batches of a rank: those to begin with, then one for each decision.
using Course = std::vector<double>;

/// The ranks of each course.
std::map<Course, std::vector<std::size_t>> courses_of(
    double first, const std::vector<metrics::DecisionRecord>& decisions) {
  std::map<Course, std::vector<std::size_t>> courses;
  for (std::size_t rank = 0; rank < decisions.front().values.size(); ++rank) {
    Course course = {first};
    for (const metrics::DecisionRecord& decision : decisions)
      course.push_back(decision.values[rank]);
    courses[course].push_back(rank);
  }
  return courses;
}

/// "rank 3", "ranks 0, 1, 2", "ranks 0, 1, 2, 3, ... (14)".
std::string name_ranks(const std::vector<std::size_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + first_of(ranks);
}

/// Steps: a batch stays until the next decision.
std::vector<Line::Point> steps_of(const Course& course,
                                  const std::vector<metrics::DecisionRecord>& decisions,
                                  StepId last) {
  std::vector<Line::Point> points = {{0, course.front(), {}, {}}};
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const auto step = static_cast<double>(decisions[i].step);
    points.push_back({step, course[i], {}, {}});
    points.push_back({step, course[i + 1], {}, {}});
  }
  points.push_back(
      {static_cast<double>(std::max(last, decisions.back().step)), course.back(), {}, {}});
  return points;
}

bool is_for_all(const std::vector<metrics::DecisionRecord>& decisions, int ranks) {
  return std::ranges::all_of(decisions, [&](const metrics::DecisionRecord& decision) {
    return std::ssize(decision.values) == ranks;
  });
}

}  // namespace

Drawing batches_drawing(const Run& run, const std::vector<metrics::DecisionRecord>& decisions,
                        const std::string& name) {
  const double first = std::strtod(run.setting("train.batch_size").c_str(), nullptr);
  const StepId last = run.epochs.empty() ? decisions.back().step : run.epochs.back().step;
  std::vector<Line> lines;
  std::vector<std::string> labels;
  std::string described;
  for (const auto& [course, ranks] : courses_of(first, decisions)) {
    if (lines.size() == kMaxCurves) break;
    labels.push_back(name_ranks(ranks));
    described += fmt::format("{}{} {:g} at first, {:g} in the end", described.empty() ? "" : "; ",
                             labels.back(), course.front(), course.back());
    lines.push_back({labels.back(),
                     Style{colour(lines.size()), lines.size() / colours().size(), lines.size()},
                     steps_of(course, decisions, last)});
  }
  const std::string title = fmt::format("{}: samples per batch", tail_of(run.title(), 24));
  return {
      name, title,
      fmt::format("Samples per batch by rank, changed {} times: {}.", decisions.size(), described),
      frame(title, "step", "samples per batch") +
          x_tics(0, static_cast<double>(std::max(last, decisions.back().step))) +
          "set yrange [0:*]\n" + lines_script(lines),
      height_with_key(labels)};
}

void draw_decisions(const std::vector<Run>& runs, Drawings& drawings) {
  std::size_t drawn = 0;
  for (const Run& run : runs) {
    const std::filesystem::path path =
        std::filesystem::path(run.path) / metrics::run_files::kDecisions;
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) continue;
    const auto decisions = metrics::read_decisions(path.string(), "batches");
    if (decisions.empty() || !is_for_all(decisions, run.ranks)) continue;
    if (++drawn > kMostRuns) {
      drawings.left_out.push_back(
          fmt::format("No batches of {}: only those of {} runs are drawn.", run.folder, kMostRuns));
      continue;
    }
    drawings.all.push_back(batches_drawing(
        run, decisions, runs.size() == 1 ? "batches" : fmt::format("batches-{}", drawn)));
  }
}

}  // namespace eqt::report
