// SPDX-License-Identifier: Apache-2.0
#include "report/starts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.hpp"
#include "figures/colours.hpp"
#include "figures/script.hpp"
#include "figures/table.hpp"
#include "figures/text.hpp"
#include "metrics/run_files.hpp"
#include "report/members.hpp"

namespace eqt::report {
using figures::Column;
using figures::Digits;
using figures::frame;
using figures::height_with_key;
using figures::Line;
using figures::lines_script;
using figures::Marks;
using figures::number_cell;
using figures::Table;
using figures::tail_of;
using figures::text_cell;
using figures::x_tics;

namespace {

constexpr std::size_t kMostDrawn = 4;  // runs with a plot
constexpr std::size_t kMostHosts = 4;  // that are named

Start start_of(const std::string& line, const std::string& place) {
  const nlohmann::json json = parse_lenient(line).first;
  const Members members(json, place);
  Start start{.step = members.count("step"), .from = members.text("from")};
  const std::uint64_t ranks = members.count("ranks");
  if (ranks < 1 || ranks > 1'000'000) members.fail_member("ranks", "a number from 1 to 1000000");
  start.ranks = static_cast<int>(ranks);
  const auto hosts = json.find("hosts");
  if (hosts != json.end() && !hosts->is_array()) members.fail_member("hosts", "a list of texts");
  if (hosts != json.end())
    for (const nlohmann::json& host : *hosts) {
      if (!host.is_string()) members.fail_member("hosts", "a list of texts");
      start.hosts.push_back(visible(host.get_ref<const std::string&>()));
    }
  start.time = members.figure("time").value_or(0);
  start.steps_lost = members.count("steps_lost");
  start.seconds_lost = members.figure("seconds_lost").value_or(0);
  return start;
}

/// "b1, b2": those of `all` that are not among `others`.
std::string missing_from(const std::vector<std::string>& others,
                         const std::vector<std::string>& all) {
  std::vector<std::string> found;
  for (const std::string& host : all)
    if (std::ranges::find(others, host) == others.end()) found.push_back(host);
  const std::size_t count = found.size();
  if (count > kMostHosts) found.resize(kMostHosts);
  return fmt::format("{}{}", fmt::join(found, ", "),
                     count > kMostHosts ? fmt::format(", ... ({})", count) : "");
}

/// What has changed since the start before: "without b3, with b7".
std::string change_between(const Start& before, const Start& now) {
  const std::string lost = missing_from(now.hosts, before.hosts);
  const std::string come = missing_from(before.hosts, now.hosts);
  if (lost.empty() && come.empty())
    return before.ranks == now.ranks ? "the same hosts" : "the same hosts, other ranks";
  return fmt::format("{}{}{}", lost.empty() ? "" : "without " + lost,
                     lost.empty() || come.empty() ? "" : ", ", come.empty() ? "" : "with " + come);
}

void add_starts(const Run& run, const std::string& prefix, Table& table) {
  const std::vector<Start> starts = read_starts(run.path);
  if (starts.size() < 2) return;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const Start& start = starts[i];
    table.rows.push_back({text_cell(fmt::format("{}start {}", prefix, i + 1)),
                          number_cell(start.time - starts.front().time, Digits{1}, 1.0 / 60),
                          number_cell(static_cast<double>(start.step), Digits{0}),
                          number_cell(start.ranks, Digits{0}),
                          text_cell(i == 0 ? fmt::format("{} hosts", start.hosts.size())
                                           : change_between(starts[i - 1], start)),
                          text_cell(start.from),
                          number_cell(static_cast<double>(start.steps_lost), Digits{0}),
                          number_cell(start.seconds_lost, Digits{1})});
  }
}

void add_pauses(const Run& run, const std::string& prefix, Table& table) {
  for (const Pause& pause : run.pauses)
    table.rows.push_back({text_cell(prefix + "pause"), number_cell({}, Digits{1}),
                          number_cell(static_cast<double>(pause.step), Digits{0}),
                          number_cell({}, Digits{0}),
                          text_cell(fmt::format("a step took {:.0f} times the median",
                                                pause.seconds / pause.median)),
                          text_cell(figures::kNothing), number_cell(0.0, Digits{0}),
                          number_cell(pause.seconds - pause.median, Digits{1})});
}

/// Minutes since the first start, and ranks. A start's lost seconds end with it, but a line never
/// goes back: what was lost before the start before it is that one's.
std::vector<Line::Point> points_of(const std::vector<Start>& starts, double end) {
  const double zero = starts.front().time;
  std::vector<Line::Point> points;
  const auto add = [&](double seconds, int ranks) {
    points.push_back({(seconds - zero) / 60, static_cast<double>(ranks), {}, {}});
  };
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i > 0) {
      const double lost =
          std::clamp(starts[i].time - starts[i].seconds_lost, starts[i - 1].time, starts[i].time);
      add(lost, starts[i - 1].ranks);
      add(lost, 0);
      add(starts[i].time, 0);
    }
    add(starts[i].time, starts[i].ranks);
  }
  add(std::max(end, starts.back().time), starts.back().ranks);
  return points;
}

/// When the last record was written, or the last start [seconds since 1970].
double end_of(const Run& run, const std::vector<Start>& starts) {
  double end = starts.back().time;
  for (const Epoch& epoch : run.epochs)
    if (epoch.step > starts.back().step) end += epoch.seconds.total;
  return end;
}

Drawing starts_drawing(const Run& run, const std::vector<Start>& starts, const std::string& name) {
  const double end = end_of(run, starts);
  double lost = 0;
  for (const Start& start : starts) lost += start.seconds_lost;
  const std::string title = fmt::format("{}: ranks that train", tail_of(run.title(), 24));
  const std::vector<Line> lines = {
      {"ranks", Style{figures::colour(0), 0, 0}, points_of(starts, end)}};
  return {
      name, title,
      fmt::format("Ranks that train over the time: {} starts, {:.1f} s lost between them. Where "
                  "it is 0, nothing was gained: steps were lost, or the run stood still.",
                  starts.size(), lost),
      frame(title, "minutes since the first start", "ranks") +
          x_tics(0, (end - starts.front().time) / 60) + "set yrange [0:*]\n" +
          lines_script(lines, Marks::none),
      height_with_key({"ranks"})};
}

}  // namespace

std::vector<Start> read_starts(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / metrics::run_files::kStarts;
  std::istringstream text(read_document(path));
  std::vector<Start> starts;
  std::size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (!line.empty())
      starts.push_back(start_of(line, fmt::format("{}:{}", visible(path.string()), number)));
  }
  return starts;
}

Table starts_table(const std::vector<Run>& runs) {
  Table table{"starts",
              "Starts of runs that were continued, what each failure cost before it, and pauses",
              {{"what", "what"},
               {"seconds", "after (min)", Column::Type::number},
               {"step", "after step", Column::Type::number},
               {"ranks", "ranks", Column::Type::number},
               {"change", "hosts"},
               {"from", "from"},
               {"steps_lost", "steps lost", Column::Type::number},
               {"seconds_lost", "lost (s)", Column::Type::number}},
              {},
              {}};
  for (const Run& run : runs) {
    const std::string prefix =
        runs.size() == 1 ? std::string() : fmt::format("{}: ", tail_of(run.title(), 24));
    add_starts(run, prefix, table);
    add_pauses(run, prefix, table);
  }
  return table;
}

void draw_starts(const std::vector<Run>& runs, Drawings& drawings) {
  std::size_t drawn = 0;
  for (const Run& run : runs) {
    const std::vector<Start> starts = read_starts(run.path);
    if (starts.size() < 2) continue;
    if (++drawn > kMostDrawn) {
      drawings.left_out.push_back(
          fmt::format("No starts of {}: only those of {} runs are drawn.", run.folder, kMostDrawn));
      continue;
    }
    drawings.all.push_back(
        starts_drawing(run, starts, runs.size() == 1 ? "starts" : fmt::format("starts-{}", drawn)));
  }
}

}  // namespace eqt::report
