// SPDX-License-Identifier: Apache-2.0
#include "report/adaptation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "figures/script.hpp"
#include "figures/text.hpp"
#include "metrics/run_files.hpp"
#include "report/members.hpp"

namespace eqt::report {
using figures::colour;
using figures::frame;
using figures::height_with_key;
using figures::Line;
using figures::lines_script;
using figures::tail_of;
using figures::x_tics;

namespace {

constexpr std::size_t kMostPoints = 200;  // of a line
constexpr std::size_t kMostRuns = 12;     // of a plot

/// A step before the last one: the run went back, and what came after it is void.
void add(std::map<StepId, Figure>& course, StepId step, Figure figure) {
  course.erase(course.lower_bound(step), course.end());
  course.emplace(step, figure);
}

void take(const std::string& line, const std::string& place, StepCourse& course) {
  constexpr std::string_view kStep = "{\"type\":\"step\"", kNoise = "{\"type\":\"noise\"";
  const bool noise = line.starts_with(kNoise);
  if (!noise && !line.starts_with(kStep)) return;
  const nlohmann::json json = parse_lenient(line).first;
  if (json.is_discarded()) return;
  const Members record(json, place);
  const StepId step = record.count("step");
  if (noise) return add(course.added_noise, step, record.figure("noise_share"));
  add(course.sent_bytes, step, static_cast<double>(record.count("sent_bytes")));
  add(course.seconds, step, record.inside("seconds").figure("total"));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// At most kMostPoints, each the median of as many neighbours.
std::vector<Line::Point> points_of(const std::map<StepId, Figure>& course, double scale) {
  std::vector<std::pair<StepId, double>> known;
  for (const auto& [step, figure] : course)
    if (figure) known.emplace_back(step, scale * *figure);
  const std::size_t each = (known.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Line::Point> points;
  for (std::size_t i = 0; i < known.size(); i += each) {
    std::vector<double> steps, values;
    for (std::size_t k = i; k < std::min(i + each, known.size()); ++k) {
      steps.push_back(static_cast<double>(known[k].first));
      values.push_back(known[k].second);
    }
    points.push_back({median(steps), median(values), {}, {}});
  }
  return points;
}

struct Subject {
  const Run* run = nullptr;
  std::string label;
  StepCourse course;
};

/// Says what is drawn of each run.
struct Height {
  const char* name;
  const char* title;
  const char* label;
  std::map<StepId, Figure> StepCourse::*course;
  double (*scale)(const Run&);
};

double as_it_is(const Run&) { return 1; }
double megabytes_a_rank(const Run& run) { return 1e-6 / run.ranks; }

constexpr Height kNoise{"added-noise", "Noise added by compression",
                        "times the gradients' own noise", &StepCourse::added_noise, as_it_is};
constexpr Height kBytes{"bytes-by-step", "Bytes of a step", "sent per rank [MB]",
                        &StepCourse::sent_bytes, megabytes_a_rank};
constexpr Height kSeconds{"seconds-by-step", "Seconds of a step", "seconds of rank 0",
                          &StepCourse::seconds, as_it_is};

/// Each limit once, over all steps.
void add_limits(const std::vector<Subject>& subjects, StepId last, std::vector<Line>& lines) {
  std::set<std::string> seen;
  for (const Subject& subject : subjects) {
    const std::string text = subject.run->setting("compressor.noise_share");
    const double limit = std::strtod(text.c_str(), nullptr);
    if (!(limit > 0) || !seen.insert(text).second) continue;
    const auto end = static_cast<double>(last);
    lines.push_back({fmt::format("limit {:g}", limit),
                     Style{kNeutral, seen.size(), 0},
                     {{0, limit, {}, {}}, {end, limit, {}, {}}}});
  }
}

void draw(const std::vector<Subject>& subjects, const Height& height, Drawings& drawings) {
  std::vector<Line> lines;
  std::vector<std::string> labels;
  std::string described;
  StepId last = 1;
  for (const Subject& subject : subjects) {
    const auto& course = subject.course.*height.course;
    const std::vector<Line::Point> points = points_of(course, height.scale(*subject.run));
    if (points.empty()) continue;
    last = std::max(last, course.rbegin()->first);
    described +=
        fmt::format("{}{} {:.3g} at first, {:.3g} in the end", described.empty() ? "" : "; ",
                    tail_of(subject.label, 24), *points.front().y, *points.back().y);
    lines.push_back({subject.label, Style{colour(lines.size()), 0, lines.size()}, points});
  }
  if (lines.empty()) return;
  const bool noise = height.course == kNoise.course;
  if (noise) add_limits(subjects, last, lines);
  for (const Line& line : lines) labels.push_back(line.label);
  drawings.all.push_back(
      {height.name, height.title, fmt::format("{}, {}: {}.", height.title, height.label, described),
       frame(height.title, "step", height.label) + x_tics(0, static_cast<double>(last)) +
           "set yrange [0:*]\n" + lines_script(lines),
       height_with_key(labels)});
}

}  // namespace

StepCourse read_steps(const Run& run) {
  StepCourse course;
  const std::filesystem::path path = std::filesystem::path(run.path) / metrics::run_files::kRecords;
  std::ifstream file(path, std::ios::binary);
  std::size_t number = 0;
  // A last line without its end was cut off.
  for (std::string line; std::getline(file, line) && !file.eof();)
    take(line, fmt::format("{}:{}", visible(path.string()), ++number), course);
  return course;
}

void draw_adaptation(const std::vector<Run>& runs, Drawings& drawings) {
  std::vector<Subject> subjects;
  std::size_t others = 0;
  for (const Run& run : runs) {
    if (!run.grades) continue;
    if (subjects.size() == kMostRuns) {
      ++others;
    } else {
      subjects.push_back({&run, run.title(), read_steps(run)});
    }
  }
  if (others > 0)
    drawings.left_out.push_back(
        fmt::format("No noise, bytes and seconds by step of {} runs: only those of {} are drawn.",
                    others, kMostRuns));
  for (const Height& height : {kNoise, kBytes, kSeconds}) draw(subjects, height, drawings);
}

}  // namespace eqt::report
