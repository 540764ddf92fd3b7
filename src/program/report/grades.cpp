// SPDX-License-Identifier: Apache-2.0
#include "report/grades.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "figures/script.hpp"
#include "figures/text.hpp"
#include "metrics/decisions.hpp"
#include "metrics/run_files.hpp"
#include "report/members.hpp"

namespace eqt::report {

using figures::bar_rows;
using figures::colour;
using figures::Column;
using figures::frame;
using figures::height_with_key;
using figures::kNeutral;
using figures::label_text;
using figures::Line;
using figures::lines_script;
using figures::number_cell;
using figures::scale_colour;
using figures::tail_of;
using figures::text_cell;
using figures::x_tics;

namespace {

constexpr const char* kKind = "grades";    // of decisions
constexpr std::size_t kMostRuns = 4;       // with a plot
constexpr std::size_t kMostTensors = 512;  // of a plot
constexpr std::size_t kMostBoxes = 20000;  // of a plot
constexpr std::size_t kMostNames = 64;     // of rows that are named
constexpr std::size_t kMostChanges = 30;   // of a run in the table
constexpr std::size_t kLongestName = 28;   // of a run, and of a row

std::string grade_name(const GradeCourse& course, std::size_t grade) {
  const auto& menu = course.names.menu;
  return grade < menu.size() ? menu[grade] : fmt::format("grade {}", grade);
}

/// "3 with none, 17 with e-elastiquant:4@1".
std::string counts_text(const GradeCourse& course, const std::vector<std::size_t>& grades) {
  std::map<std::size_t, std::size_t> counts;
  for (const std::size_t grade : grades) ++counts[grade];
  std::string text;
  for (const auto& [grade, count] : counts)
    text += fmt::format("{}{} with {}", text.empty() ? "" : ", ", count, grade_name(course, grade));
  return text;
}

/// Returns the grades of tensors before the decision; empty if it is the first and nothing says
/// what was.
std::vector<std::size_t> before(const GradeCourse& course, std::size_t decision) {
  if (decision > 0) return course.decisions[decision - 1].grades;
  if (!course.knows_start) return {};
  return std::vector<std::size_t>(course.decisions.front().grades.size(), course.names.start);
}

std::size_t changed_by(const GradeCourse& course, std::size_t decision) {
  const std::vector<std::size_t> old = before(course, decision);
  const std::vector<std::size_t>& now = course.decisions[decision].grades;
  if (old.empty()) return now.size();
  std::size_t changed = 0;
  for (std::size_t t = 0; t < now.size(); ++t)
    if (old[t] != now[t]) ++changed;
  return changed;
}

/// Names of tensors differ at both ends.
std::string row_name(const std::string& name) {
  constexpr std::string_view kUsualEnd = ".weight";
  std::string text =
      name.ends_with(kUsualEnd) ? name.substr(0, name.size() - kUsualEnd.size()) : name;
  const bool ascii = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  if (!ascii || text.size() <= kLongestName) return text;
  constexpr std::size_t kEnd = kLongestName / 2;
  return text.substr(0, kLongestName - kEnd - 1) + "…" + text.substr(text.size() - kEnd);
}

/// A box lasts while a tensor has a grade.
struct Box {
  StepId begin = 0, end = 0;
  std::size_t tensor = 0;
};

/// Returns the boxes by grade.
std::map<std::size_t, std::vector<Box>> boxes_of(const GradeCourse& course, StepId last) {
  std::map<std::size_t, std::vector<Box>> boxes;
  const auto& decisions = course.decisions;
  for (std::size_t t = 0; t < decisions.front().grades.size(); ++t) {
    StepId begin = course.knows_start ? 0 : decisions.front().step;
    std::size_t grade = course.knows_start ? course.names.start : decisions.front().grades[t];
    for (const GradeDecision& decision : decisions) {
      if (decision.grades[t] == grade) continue;
      boxes[grade].push_back({begin, decision.step, t});
      begin = decision.step;
      grade = decision.grades[t];
    }
    if (last > begin) boxes[grade].push_back({begin, last, t});
  }
  return boxes;
}

/// Up to the last epoch, or to where the last decision would be followed by the next.
StepId last_step(const Run& run, const GradeCourse& course) {
  const StepId decided = course.decisions.back().step;
  const StepId done = run.epochs.empty() ? run.outcome.steps : run.epochs.back().step;
  return std::max(done, decided + 1);
}

std::string rows_script(const std::vector<std::string>& tensors, StepId last) {
  const std::size_t every = (tensors.size() + kMostNames - 1) / kMostNames;
  std::vector<std::string> labels;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    labels.push_back(t % every == 0 ? row_name(tensors[t]) : "");
  return bar_rows(labels, static_cast<double>(last));
}

/// Names of tensors leave the key no room for a second column.
int height_of(std::size_t tensors, std::size_t grades) {
  constexpr int kRow = 16, kKeyRow = 20, kFrame = 120, kLeast = 160;  // [pixels]
  const int rows = kRow * static_cast<int>(std::min(tensors, kMostNames));
  return kFrame + std::max(rows, kLeast) + kKeyRow * static_cast<int>(grades);
}

std::size_t count_boxes(const std::map<std::size_t, std::vector<Box>>& boxes) {
  std::size_t count = 0;
  for (const auto& [grade, all] : boxes) count += all.size();
  return count;
}

/// Why it would be too large to be read; "" if it would not.
std::string why_not_drawn(const Run& run, const GradeCourse& course) {
  const std::size_t tensors = course.decisions.front().grades.size();
  if (tensors > kMostTensors)
    return fmt::format("{} tensors are more than the {} of a picture", tensors, kMostTensors);
  const std::size_t boxes = count_boxes(boxes_of(course, last_step(run, course)));
  if (boxes > kMostBoxes)
    return fmt::format("{} changes are too many for a picture", boxes - tensors);
  return {};
}

constexpr std::size_t kMostPoints = 200;  // of a line
constexpr std::size_t kMostLines = 12;    // of a plot

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

/// Returns at most kMostPoints, each the median of as many neighbours.
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
                        "times the gradients' own noise; with a memory: part of the squares",
                        &StepCourse::added_noise, as_it_is};
constexpr Height kBytes{"bytes-by-step", "Bytes of a step", "sent per rank [MB]",
                        &StepCourse::sent_bytes, megabytes_a_rank};
constexpr Height kSeconds{"seconds-by-step", "Seconds of a step", "seconds of rank 0",
                          &StepCourse::seconds, as_it_is};

/// Each limit once, over all steps.
void add_limits(const std::vector<Subject>& subjects, StepId last, std::vector<Line>& lines) {
  std::set<std::string> seen;
  for (const Subject& subject : subjects) {
    const auto is_rate = [](const std::string& name) {
      return name.find(":rate=") != std::string::npos;
    };
    const bool remembers =
        subject.run->grades && std::ranges::any_of(subject.run->grades->menu, is_rate);
    const std::string text =
        subject.run->setting(remembers ? "compressor.error_share" : "compressor.noise_share");
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

GradeCourse read_grades(const Run& run) {
  GradeCourse course;
  const std::filesystem::path path =
      std::filesystem::path(run.path) / metrics::run_files::kDecisions;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return course;
  for (const metrics::DecisionRecord& record : metrics::read_decisions(path.string(), kKind)) {
    GradeDecision decision{.step = record.step, .grades = {}, .why = visible(record.why)};
    const std::size_t first = course.decisions.empty() ? record.values.size()
                                                       : course.decisions.front().grades.size() + 1;
    const std::size_t tensors = run.grades ? run.grades->tensors.size() + 1 : first;
    constexpr double kMostGrades = 256;
    const double grades = run.grades ? static_cast<double>(run.grades->menu.size()) : kMostGrades;
    const auto fits = [&](double value) {
      return value >= 0 && value < grades && value == std::floor(value);
    };
    if (record.values.size() < 2 || record.values.size() != tensors ||
        !std::all_of(record.values.begin() + 1, record.values.end(), fits))
      fail(Kind::data,
           "{}, step {}: expected a fingerprint and grades below {} of {} tensors, found others; "
           "make the run again or leave it out",
           visible(path.string()), record.step, grades, tensors - 1);
    for (std::size_t i = 1; i < record.values.size(); ++i)
      decision.grades.push_back(static_cast<std::size_t>(record.values[i]));
    course.decisions.push_back(std::move(decision));
  }
  if (course.decisions.empty()) return course;
  if (run.grades) {
    course.names = *run.grades;
    course.knows_start = run.grades->start < run.grades->menu.size();
  } else {
    for (std::size_t t = 0; t < course.decisions.front().grades.size(); ++t)
      course.names.tensors.push_back(fmt::format("tensor {}", t + 1));
  }
  return course;
}

Drawing grades_drawing(const Run& run, const GradeCourse& course, const std::string& name) {
  const StepId last = last_step(run, course);
  const auto boxes = boxes_of(course, last);
  std::string data, plots;
  std::vector<std::string> labels;
  for (const auto& [grade, all] : boxes) {
    const std::size_t i = labels.size();
    labels.push_back(grade_name(course, grade));
    data += fmt::format("$g{} << end\n", i);
    for (const Box& box : all) data += fmt::format("{} {} {}\n", box.begin, box.end, box.tensor);
    data += "end\n";
    plots += fmt::format(
        "{}$g{} using 1:3:1:2:($3-0.46):($3+0.46) with boxxyerror fs solid noborder lc rgb '{}' "
        "title {}",
        i == 0 ? "" : ", \\\n", i, scale_colour(i, boxes.size()), label_text(labels.back()));
  }
  std::size_t changes = 0;
  for (std::size_t i = 0; i < course.decisions.size(); ++i)
    if (changed_by(course, i) > 0) ++changes;
  const std::string title = fmt::format("{}: grades by tensor", tail_of(run.title(), kLongestName));
  return {name, title,
          fmt::format("Which grade each of {} tensors had, first layer on top, changed by {} of {} "
                      "decisions; in the end {}.",
                      course.names.tensors.size(), changes, course.decisions.size(),
                      counts_text(course, course.decisions.back().grades)),
          frame(title, "step", "") + "set key maxcols 1\n" +
              rows_script(course.names.tensors, last) + fmt::format("set xrange [0:{}]\n", last) +
              data + "plot " + plots + "\n",
          height_of(course.names.tensors.size(), labels.size())};
}

void draw_grades(const std::vector<Run>& runs, Drawings& drawings) {
  std::size_t drawn = 0;
  for (const Run& run : runs) {
    const GradeCourse course = read_grades(run);
    if (course.decisions.empty()) continue;
    const std::string why = drawn == kMostRuns
                                ? fmt::format("only those of {} runs are drawn", kMostRuns)
                                : why_not_drawn(run, course);
    if (!why.empty()) {
      drawings.left_out.push_back(fmt::format("No grades of {}: {}.", run.folder, why));
      continue;
    }
    ++drawn;
    drawings.all.push_back(
        grades_drawing(run, course, runs.size() == 1 ? "grades" : fmt::format("grades-{}", drawn)));
  }
}

Table grades_table(const std::vector<Run>& runs) {
  Table table{"changes",
              "When the grades of tensors changed, and what for",
              {{"step", "after step"},
               {"changed", "tensors changed", Column::Type::number},
               {"grades", "now"},
               {"why", "why"}},
              {},
              {}};
  for (const Run& run : runs) {
    const GradeCourse course = read_grades(run);
    const std::string own = tail_of(run.title(), kLongestName);
    std::size_t shown = 0, left_out = 0, same = 0;
    for (std::size_t i = 0; i < course.decisions.size(); ++i) {
      const GradeDecision& decision = course.decisions[i];
      const std::size_t changed = changed_by(course, i);
      if (changed == 0) {
        ++same;
      } else if (shown == kMostChanges) {
        ++left_out;
      } else {
        ++shown;
        table.rows.push_back(
            {text_cell(runs.size() == 1 ? fmt::format("{}", decision.step)
                                        : fmt::format("{}: {}", own, decision.step)),
             number_cell(static_cast<double>(changed), {.after_point = 0}),
             text_cell(counts_text(course, decision.grades)), text_cell(decision.why)});
      }
    }
    if (left_out > 0)
      table.notes.push_back(fmt::format(
          "{}: {} later changes are not listed; decisions.jsonl has them.", own, left_out));
    if (same > 0 && shown > 0)
      table.notes.push_back(fmt::format("{}: {} of {} decisions left the grades as they were.", own,
                                        same, course.decisions.size()));
  }
  return table;
}

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
    if (subjects.size() == kMostLines) {
      ++others;
    } else {
      subjects.push_back({&run, run.title(), read_steps(run)});
    }
  }
  if (others > 0)
    drawings.left_out.push_back(
        fmt::format("No noise, bytes and seconds by step of {} runs: only those of {} are drawn.",
                    others, kMostLines));
  for (const Height& height : {kNoise, kBytes, kSeconds}) draw(subjects, height, drawings);
}

}  // namespace eqt::report
