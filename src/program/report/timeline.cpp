// SPDX-License-Identifier: Apache-2.0
#include "report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "figures/script.hpp"
#include "figures/text.hpp"
#include "metrics/run_files.hpp"
#include "report/members.hpp"
#include "report/values.hpp"

namespace eqt::report {
using figures::bar_rows;
using figures::colour;
using figures::Column;
using figures::Digits;
using figures::frame;
using figures::height_of_bars;
using figures::Key;
using figures::kNeutral;
using figures::kPercent;
using figures::label_text;
using figures::number_cell;
using figures::shortened;
using figures::tail_of;
using figures::text_cell;

namespace {

using metrics::Activity;
using metrics::TimelineRecord;
using Json = nlohmann::json;

constexpr std::size_t kUsualSteps = 4;
constexpr std::size_t kMostSpans = 4096;       // of a line
constexpr std::size_t kMostSpanBoxes = 20000;  // of a plot
constexpr std::size_t kMostRuns = 4;           // with a plot
constexpr const char* kExpected =
    "a step, a rank and spans like [\"compute\", begin, end] with begin <= end";

[[noreturn]] void refuse_line(const std::string& place, std::string_view found) {
  fail(Kind::data, "{}: expected {}, found {}; run again with output.timeline or remove the file",
       place, kExpected, shortened(visible(found), 60));
}

bool is_span(const Json& span) {
  if (!span.is_array() || span.size() != 3 || !span[0].is_string() || !span[1].is_number() ||
      !span[2].is_number())
    return false;
  const double begin = span[1].get<double>(), end = span[2].get<double>();
  return metrics::activity_named(span[0].get_ref<const std::string&>()).has_value() &&
         std::isfinite(begin) && std::isfinite(end) && begin <= end;
}

TimelineRecord timeline_record_of(const std::string& line, int ranks, const std::string& place) {
  const Json json = parse_lenient(line).first;
  if (!json.is_object()) refuse_line(place, line);
  const Members members(json, place);
  const auto spans = json.find("spans");
  const std::uint64_t step = members.count("step"), rank = members.count("rank");
  if (step == 0 || rank >= static_cast<std::uint64_t>(ranks) || spans == json.end() ||
      !spans->is_array() || spans->size() > kMostSpans || !std::ranges::all_of(*spans, is_span))
    refuse_line(place, line);
  TimelineRecord record{.step = step, .rank = static_cast<Rank>(rank), .spans = {}};
  for (const Json& span : *spans)
    record.spans.push_back({*metrics::activity_named(span[0].get_ref<const std::string&>()),
                            span[1].get<double>(), span[2].get<double>()});
  return record;
}

bool is_beside(Activity activity) {
  return activity == Activity::messages || activity == Activity::transfer;
}

/// Begin, end and row of every span of an activity.
std::string boxes_of(const std::vector<TimelineRecord>& records, Activity activity, double zero) {
  std::string data;
  for (const TimelineRecord& record : records)
    for (const metrics::TimelineSpan& span : record.spans)
      if (span.activity == activity)
        data += fmt::format("{:.9g} {:.9g} {}\n", span.begin - zero, span.end - zero, record.rank);
  return data;
}

/// "rank 0 computes 3.01 s, waits 0.52 s".
std::string describe_ranks(const std::vector<TimelineRecord>& records) {
  std::map<Rank, std::array<double, 2>> sums;
  for (const TimelineRecord& record : records)
    for (const metrics::TimelineSpan& span : record.spans) {
      if (span.activity == Activity::compute) sums[record.rank][0] += span.end - span.begin;
      if (span.activity == Activity::wait) sums[record.rank][1] += span.end - span.begin;
    }
  std::string text;
  for (const auto& [rank, seconds] : sums)
    text += fmt::format("{}rank {} computes {:.3g} s, waits {:.3g} s", text.empty() ? "" : "; ",
                        rank, seconds[0], seconds[1]);
  return text;
}

std::size_t count_spans(const std::vector<TimelineRecord>& records) {
  std::size_t count = 0;
  for (const TimelineRecord& record : records) count += record.spans.size();
  return count;
}

double own_seconds(const metrics::PhaseSeconds& seconds) {
  return seconds.total - seconds.transfer;
}

/// Seconds by rank, summed over the epochs that have them, divided by their steps.
std::vector<metrics::PhaseSeconds> mean_steps_of(const Run& run) {
  std::vector<metrics::PhaseSeconds> sums(static_cast<std::size_t>(run.ranks));
  double steps = 0;
  StepId before = 0;
  for (const Epoch& epoch : run.epochs) {
    const StepId taken = epoch.step > before ? epoch.step - before : 0;
    before = epoch.step;
    if (epoch.rank_seconds.size() != sums.size()) continue;
    steps += static_cast<double>(taken);
    for (std::size_t rank = 0; rank < sums.size(); ++rank) sums[rank] += epoch.rank_seconds[rank];
  }
  if (steps == 0) return {};
  for (metrics::PhaseSeconds& sum : sums)
    for (const metrics::PhaseRow& phase : metrics::kPhases) sum.*phase.seconds /= steps;
  return sums;
}

void add_ranks(const Run& run, const std::string& prefix, Table& table) {
  constexpr Digits kSeconds{.after_point = 4};
  const std::vector<metrics::PhaseSeconds> steps = mean_steps_of(run);
  if (steps.empty()) return;
  const auto slowest = std::ranges::max_element(steps, {}, own_seconds);
  double waits = 0;
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    const metrics::PhaseSeconds& step = steps[rank];
    const bool is_slowest = &step == &*slowest;
    if (!is_slowest) waits += step.transfer;
    const double share = step.total > 0 ? step.transfer / step.total : 0;
    table.rows.push_back({text_cell(fmt::format("{}rank {}", prefix, rank)),
                          number_cell(step.compute, kSeconds),
                          number_cell(own_seconds(step) - step.compute, kSeconds),
                          number_cell(step.transfer, kSeconds), number_cell(share, kPercent, 100),
                          text_cell(is_slowest ? "slowest" : "")});
  }
  if (steps.size() < 2) return;
  table.notes.push_back(fmt::format(
      "{}rank {} is the slowest: it works {:.4f} s in a mean step and waits {:.4f} s; each of the "
      "others waits {:.4f} s for it and for messages.",
      prefix, slowest - steps.begin(), own_seconds(*slowest), slowest->transfer,
      waits / static_cast<double>(steps.size() - 1)));
}

}  // namespace

StepRange parse_steps(const std::string& text) {
  const auto read = [](std::string_view part, StepId& number) {
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    return !part.empty() && error == std::errc() && rest == part.data() + part.size() && number > 0;
  };
  const std::size_t colon = text.find(':');
  StepRange range;
  const bool valid =
      read(std::string_view(text).substr(0, colon), range.first) &&
      (colon == std::string::npos ? (range.last = range.first) > 0
                                  : read(std::string_view(text).substr(colon + 1), range.last));
  if (!valid || range.last < range.first)
    fail(Kind::usage, "--steps: expected A:B with steps from 1 on and A <= B, found \"{}\"",
         visible(text));
  return range;
}

std::vector<TimelineRecord> read_timeline(const std::string& folder, int ranks,
                                          const std::optional<StepRange>& range) {
  const std::filesystem::path path = std::filesystem::path(folder) / metrics::run_files::kTimeline;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::map<StepId, std::map<Rank, TimelineRecord>> kept;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    // A last line without its end was cut off when the writer was interrupted.
    if (file.eof()) break;
    TimelineRecord record =
        timeline_record_of(line, ranks, fmt::format("{}:{}", visible(path.string()), number));
    const StepId step = record.step;
    if (range && (step < range->first || step > range->last)) continue;
    kept[step][record.rank] = std::move(record);
    if (!range && kept.size() > kUsualSteps) kept.erase(kept.begin());
  }
  if (file.bad())
    fail(Kind::data, "{}: expected a readable file, but reading failed after line {}",
         visible(path.string()), number);
  std::vector<TimelineRecord> records;
  for (auto& [step, ranks_of_step] : kept)
    for (auto& [rank, record] : ranks_of_step) records.push_back(std::move(record));
  return records;
}

Drawing timeline_drawing(const Run& run, const std::vector<TimelineRecord>& records,
                         const std::string& name) {
  double zero = std::numeric_limits<double>::infinity(), end = -zero;
  for (const TimelineRecord& record : records) {
    for (const metrics::TimelineSpan& span : record.spans) {
      zero = std::min(zero, span.begin);
      end = std::max(end, span.end);
    }
  }
  std::vector<std::string> labels;
  for (int rank = 0; rank < run.ranks; ++rank) labels.push_back(fmt::format("rank {}", rank));
  const StepId first = records.front().step, last = records.back().step;
  const std::string steps =
      first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
  const std::string title = fmt::format("{}: {}", tail_of(run.title(), 24), steps);
  std::string data, plots;
  std::size_t shown = 0;
  for (const metrics::ActivityRow& row : metrics::kActivities) {
    const std::string boxes = boxes_of(records, row.value, zero);
    if (boxes.empty()) continue;
    data += fmt::format("$a{} << end\n{}end\n", shown, boxes);
    const bool beside = is_beside(row.value);
    plots += fmt::format(
        "{}$a{} using 1:3:1:2:($3{}):($3{}) with boxxyerror fs solid noborder lc rgb '{}' title {}",
        shown == 0 ? "" : ", \\\n", shown, beside ? "+0.12" : "-0.4", beside ? "+0.4" : "+0.08",
        row.value == Activity::wait ? kNeutral : colour(shown), label_text(row.about));
    ++shown;
  }
  constexpr int kKeyHeight = 40;
  return {name, title,
          fmt::format("What each rank did in {}: on top its own work and its waiting, below the "
                      "messages beside it. {}.",
                      steps, describe_ranks(records)),
          frame(title, "seconds", "", Key::above_right) + bar_rows(labels, end - zero) + data +
              "plot " + plots + "\n",
          height_of_bars(labels, 2) + kKeyHeight};
}

void draw_timelines(const std::vector<Run>& runs, const std::optional<StepRange>& range,
                    Drawings& drawings) {
  std::size_t drawn = 0;
  for (const Run& run : runs) {
    const std::vector<TimelineRecord> records = read_timeline(run.path, run.ranks, range);
    const std::size_t spans = count_spans(records);
    if (spans == 0) {
      std::error_code error;
      if (range && std::filesystem::exists(
                       std::filesystem::path(run.path) / metrics::run_files::kTimeline, error))
        drawings.left_out.push_back(
            fmt::format("No timeline of {}: it has none of the steps {} to {}.", run.folder,
                        range->first, range->last));
      continue;
    }
    if (spans > kMostSpanBoxes || drawn == kMostRuns) {
      drawings.left_out.push_back(
          drawn == kMostRuns
              ? fmt::format("No timeline of {}: only those of {} runs are drawn.", run.folder,
                            kMostRuns)
              : fmt::format("No timeline of {}: {} spans are too many for a picture; choose fewer "
                            "steps with --steps A:B.",
                            run.folder, spans));
      continue;
    }
    ++drawn;
    drawings.all.push_back(timeline_drawing(
        run, records, runs.size() == 1 ? "timeline" : fmt::format("timeline-{}", drawn)));
  }
}

Table waiting_table(const std::vector<Run>& runs) {
  Table table{"waiting",
              "What waits for whom: a mean step by rank, in seconds",
              {{"rank", "rank"},
               {"compute_seconds", "compute", Column::Type::number},
               {"other_seconds", "other work", Column::Type::number},
               {"waiting_seconds", "waiting", Column::Type::number},
               {"idle_share", "idle (%)", Column::Type::number},
               {"remark", "remark"}},
              {},
              {}};
  for (const Run& run : runs) add_ranks(run, row_prefix(run, runs), table);
  return table;
}

}  // namespace eqt::report
