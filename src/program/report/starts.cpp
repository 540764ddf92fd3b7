// SPDX-License-Identifier: Apache-2.0
#include "report/starts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/error.hpp"
#include "figures/gnuplot.hpp"
#include "figures/script.hpp"
#include "figures/text.hpp"
#include "metrics/run_files.hpp"
#include "report/values.hpp"

namespace eqt::report {
using figures::colour;
using figures::Column;
using figures::Digits;
using figures::first_of;
using figures::frame;
using figures::height_with_key;
using figures::Key;
using figures::kNeutral;
using figures::kPlotWidth;
using figures::Line;
using figures::lines_script;
using figures::logarithmic;
using figures::Marks;
using figures::number_cell;
using figures::shortened;
using figures::tail_of;
using figures::text_cell;
using figures::wants_logarithm;
using figures::x_tics;

namespace {

using Json = nlohmann::json;

constexpr double kPauseSeconds = 1;
constexpr double kPauseTimes = 5;              // the median step
constexpr std::size_t kMostMarkedStarts = 24;  // of a plot
constexpr std::size_t kMostMarkedPauses = 8;   // of a plot, the longest
constexpr std::size_t kMostCourses = 4;        // runs with a plot

Start start_of(const Json& json, const std::string& place) {
  constexpr std::uint64_t kMaxRanks = 1u << 20;
  if (json.is_discarded())
    fail(Kind::data, "{}: expected a start in JSON, found something else; leave the run out",
         place);
  const Members members(json, place);
  Start start;
  start.step = members.count("step");
  start.from = members.text("from");
  const std::uint64_t ranks = members.count("ranks");
  if (ranks < 1 || ranks > kMaxRanks) members.fail_member("ranks", "a number of ranks");
  start.ranks = static_cast<int>(ranks);
  start.hosts = members.texts("hosts");
  const Figure time = members.figure("time");
  if (!time) members.fail_member("time", "the seconds since 1970");
  start.time = *time;
  start.steps_lost = members.count("steps_lost");
  start.seconds_lost = members.figure("seconds_lost").value_or(0);
  return start;
}

/// "without b3", "with b3 again, with b4 for the first time"; by ranks where hosts are the same.
std::string change_at(const std::vector<Start>& starts, std::size_t i) {
  const std::set<std::string> before(starts[i - 1].hosts.begin(), starts[i - 1].hosts.end()),
      now(starts[i].hosts.begin(), starts[i].hosts.end());
  std::set<std::string> seen;
  for (std::size_t k = 0; k < i; ++k) seen.insert(starts[k].hosts.begin(), starts[k].hosts.end());
  std::vector<std::string> missing, back, first;
  std::ranges::set_difference(before, now, std::back_inserter(missing));
  for (const std::string& host : now)
    if (!before.contains(host)) (seen.contains(host) ? back : first).push_back(host);
  std::vector<std::string> changes;
  if (!missing.empty()) changes.push_back(fmt::format("without {}", first_of(missing)));
  if (!back.empty()) changes.push_back(fmt::format("with {} again", first_of(back)));
  if (!first.empty()) changes.push_back(fmt::format("with {} for the first time", first_of(first)));
  if (!changes.empty()) return fmt::format("{}", fmt::join(changes, ", "));
  if (starts[i].ranks != starts[i - 1].ranks)
    return fmt::format("{} ranks instead of {}", starts[i].ranks, starts[i - 1].ranks);
  return now.empty() ? "the same ranks" : "the same hosts";
}

/// "12 steps and 4.1 s lost".
std::string describe_loss(const Start& start) {
  const std::string seconds = fmt::format("{:.1f} s lost", start.seconds_lost);
  if (start.steps_lost == 0) return seconds;
  return fmt::format("{} step{} and {}", start.steps_lost, start.steps_lost == 1 ? "" : "s",
                     seconds);
}

void add_starts(const Run& run, const std::string& prefix, Table& table) {
  for (std::size_t i = 0; i < run.starts.size(); ++i) {
    const Start& start = run.starts[i];
    table.rows.push_back(
        {text_cell(fmt::format("{}start {}", prefix, i + 1)),
         number_cell(start.time - run.starts.front().time, Digits{.after_point = 1}),
         number_cell(static_cast<double>(start.step), Digits{.after_point = 0}),
         text_cell(start.from), number_cell(start.ranks, Digits{.after_point = 0}),
         text_cell(i == 0 ? first_of(start.hosts) : change_at(run.starts, i)),
         number_cell(static_cast<double>(start.steps_lost), Digits{.after_point = 0}),
         number_cell(start.seconds_lost, Digits{.after_point = 1})});
  }
  if (run.starts.front().step > 0)
    table.notes.push_back(
        fmt::format("{}earlier starts are not known: they were recorded on another host.", prefix));
}

/// A vertical line of a plot, and what it says.
struct Mark {
  std::uint64_t step = 0;
  std::string text;
  bool is_start = true;
};

std::vector<Mark> marks_of(const Run& run) {
  std::vector<Mark> marks;
  for (std::size_t i = 1; i < std::min(run.starts.size(), kMostMarkedStarts + 1); ++i)
    marks.push_back(
        {run.starts[i].step, fmt::format("start {}: {}, {}", i + 1, change_at(run.starts, i),
                                         describe_loss(run.starts[i]))});
  std::vector<StepSeconds> longest = run.pauses;
  std::ranges::stable_sort(longest, std::greater{}, &StepSeconds::seconds);
  longest.resize(std::min(longest.size(), kMostMarkedPauses));
  for (const StepSeconds& pause : longest)
    marks.push_back({pause.step, fmt::format("pause of {:.1f} s", pause.seconds), false});
  std::ranges::stable_sort(marks, {}, &Mark::step);
  return marks;
}

/// Lines from the lower to the upper axis. A text that would stand on its neighbour is left out.
std::string marks_script(const std::vector<Mark>& marks, double last) {
  constexpr double kLine = 14, kBeside = 100;  // [pixels]
  constexpr std::size_t kLongestMark = 52;
  const double pixels = (kPlotWidth - kBeside) / std::max(last, 1.0);  // of a step
  double free = 0;
  std::string script;
  for (const Mark& mark : marks) {
    const auto x = static_cast<double>(mark.step);
    script +=
        fmt::format("set arrow from {0}, graph 0 to {0}, graph 1 nohead dt {1} lc rgb '{2}'\n",
                    mark.step, mark.is_start ? "'-'" : "'.'", kNeutral);
    if (x * pixels < free) continue;
    free = x * pixels + kLine;
    script += fmt::format(
        "set label {} at {}, graph 0.98 rotate by 90 right font ',10' offset character 0.8,0\n",
        figures::gnuplot_quoted(shortened(mark.text, kLongestMark)), mark.step);
  }
  return script;
}

Drawing interruptions_drawing(const Run& run, const std::string& name) {
  const std::vector<Mark> marks = marks_of(run);
  Line line{"", Style{colour(0), 0, 0}, {}};
  std::vector<double> seconds;
  double last = 1;
  for (const StepLosses& steps : run.step_losses) {
    if (!(steps.longest > 0)) continue;
    last = static_cast<double>(steps.last);
    line.points.push_back({last, steps.longest, {}, {}});
    seconds.push_back(steps.longest);
  }
  std::string described;
  for (const Mark& mark : marks)
    described +=
        fmt::format("{}at step {} {}", described.empty() ? "" : "; ", mark.step, mark.text);
  if (marks.size() < run.pauses.size() + run.starts.size() - (run.starts.empty() ? 0 : 1))
    described += "; and others";
  const std::string title = fmt::format("{}: starts and pauses", tail_of(run.title(), 24));
  constexpr int kRoomForTexts = 60;
  return {name, title,
          fmt::format("Seconds of a step on rank 0 over the steps, of neighbours the longest: {}.",
                      described),
          frame(title, "step", "seconds of a step", Key::none) +
              logarithmic(false, wants_logarithm(seconds)) + x_tics(0, last) +
              "set xrange [0:*]\n" + marks_script(marks, last) + lines_script({line}, Marks::none),
          height_with_key({}) + kRoomForTexts};
}

}  // namespace

std::vector<Start> read_starts(const std::string& folder, const Members& summary) {
  const std::filesystem::path path = std::filesystem::path(folder) / metrics::run_files::kStarts;
  std::vector<Start> starts;
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    std::istringstream lines(read_document(path));
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);)
      starts.push_back(start_of(parse_lenient(line).first,
                                fmt::format("{}:{}", visible(path.string()), ++number)));
    return starts;
  }
  const auto found = summary.object().find("starts");
  if (found == summary.object().end() || found->is_null()) return starts;
  if (!found->is_array()) summary.fail_member("starts", "a list of starts");
  for (const Json& start : *found)
    starts.push_back(start_of(start, summary.place() + ", \"starts\""));
  return starts;
}

std::vector<StepSeconds> pauses_of(const std::vector<StepSeconds>& steps,
                                   const std::vector<Start>& starts) {
  if (steps.empty()) return {};
  std::vector<double> seconds;
  seconds.reserve(steps.size());
  for (const StepSeconds& step : steps) seconds.push_back(step.seconds);
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  const double least = std::max(kPauseSeconds, kPauseTimes * *middle);
  std::set<std::uint64_t> first = {1};
  for (const Start& start : starts) first.insert(start.step + 1);
  std::vector<StepSeconds> pauses;
  for (const StepSeconds& step : steps)
    if (step.seconds > least && !first.contains(step.step)) pauses.push_back(step);
  return pauses;
}

Table starts_table(const std::vector<Run>& runs) {
  Table table{"starts",
              "Starts: who was missing or came back, and what the time before has cost",
              {{"start", "start"},
               {"seconds", "seconds after the first", Column::Type::number},
               {"step", "steps completed", Column::Type::number},
               {"from", "continues from"},
               {"ranks", "ranks", Column::Type::number},
               {"hosts", "hosts"},
               {"steps_lost", "steps lost", Column::Type::number},
               {"seconds_lost", "seconds lost", Column::Type::number}},
              {},
              {}};
  for (const Run& run : runs)
    if (run.starts.size() > 1) add_starts(run, row_prefix(run, runs), table);
  if (!table.rows.empty())
    table.notes.emplace_back(
        "Steps lost were taken again; seconds are lost from the end of the last step that is kept "
        "to the start.");
  return table;
}

void draw_interruptions(const std::vector<Run>& runs, Drawings& drawings) {
  std::size_t drawn = 0;
  for (const Run& run : runs) {
    const bool timed = std::ranges::any_of(
        run.step_losses, [](const StepLosses& steps) { return steps.longest > 0; });
    if (!timed || (run.starts.size() < 2 && run.pauses.empty())) continue;
    if (++drawn > kMostCourses) {
      drawings.left_out.push_back(
          fmt::format("No starts and pauses of {}: only those of {} runs are drawn.", run.folder,
                      kMostCourses));
      continue;
    }
    drawings.all.push_back(interruptions_drawing(
        run, runs.size() == 1 ? "interruptions" : fmt::format("interruptions-{}", drawn)));
  }
}

}  // namespace eqt::report
