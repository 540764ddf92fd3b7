// SPDX-License-Identifier: Apache-2.0
// Seconds of training, seconds of a step by phase, and bits per value: horizontal bars, one per
// group.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "figures/script.hpp"
#include "report/drawing.hpp"
#include "report/quantities.hpp"

namespace eqt::report {
using figures::bar_rows;
using figures::colour;
using figures::data_text;
using figures::frame;
using figures::height_of_bars;
using figures::Key;
using figures::kNeutral;

namespace {

using metrics::PhaseSeconds;

/// All but the total, beginning with computing: an order in which neighbours have very different
/// colours.
constexpr auto kBarPhases = [] {
  std::array<metrics::PhaseRow, metrics::kPhases.size() - 1> phases{};
  std::copy_n(metrics::kPhases.begin(), phases.size(), phases.begin());
  std::rotate(phases.begin(), phases.begin() + 1, phases.end());
  return phases;
}();
static_assert(kBarPhases[0].seconds == &PhaseSeconds::compute);

struct PhaseBar {
  std::string label;
  std::array<double, kBarPhases.size()> seconds{};
};

std::vector<PhaseBar> phase_bars_of(const std::vector<Group>& groups) {
  std::vector<PhaseBar> rows;
  for (const Group& group : groups) {
    PhaseBar row{group.label};
    double sum = 0;
    for (std::size_t i = 0; i < kBarPhases.size(); ++i) {
      const Spread spread = group.spread(
          [&](const Run& run) { return Figure(run.outcome.step_seconds.*kBarPhases[i].seconds); });
      row.seconds[i] = spread.mean;
      sum += spread.mean;
    }
    if (sum > 0) rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> labels_of(const std::vector<PhaseBar>& rows) {
  std::vector<std::string> labels;
  for (const PhaseBar& row : rows) labels.push_back(row.label);
  return labels;
}

std::string describe(const std::vector<PhaseBar>& rows) {
  std::string text;
  for (const PhaseBar& row : rows) {
    text += fmt::format("{}{}: ", text.empty() ? "" : "; ", row.label);
    for (std::size_t i = 0; i < kBarPhases.size(); ++i)
      text += fmt::format("{}{} {:.3g} s", i == 0 ? "" : ", ", kBarPhases[i].name, row.seconds[i]);
  }
  return text;
}

void draw_phases(const std::vector<Group>& groups, Drawings& drawings) {
  const std::vector<PhaseBar> rows = phase_bars_of(groups);
  if (rows.empty()) {
    const auto is_simulated = [](const Group& group) { return group.first().simulated; };
    if (std::ranges::all_of(groups, is_simulated)) return;  // a sentence says so
    drawings.left_out.push_back("No plot of time by phase: no run finished an epoch.");
    return;
  }
  const std::string title = "Seconds of a step by phase";
  std::string data;
  double most = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    data += fmt::format("{} 0", i);
    for (const double seconds : rows[i].seconds)
      data += fmt::format(" {}", data_text(sum += seconds));
    data += "\n";
    most = std::max(most, sum);
  }
  std::string bars;
  for (std::size_t i = 0; i < kBarPhases.size(); ++i)
    bars += fmt::format(
        "{}$d using {}:1:{}:{}:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '{}' "
        "title \"{}\"",
        i == 0 ? "" : ", \\\n", i + 2, i + 2, i + 3, colour(i), kBarPhases[i].name);
  drawings.all.push_back({"seconds-by-phase", title,
                          "Mean seconds of a step, of the slowest rank in each phase; transfer is "
                          "what is not hidden behind computing. " +
                              describe(rows) + ".",
                          frame(title, "seconds per step", "", Key::above_right) +
                              bar_rows(labels_of(rows), most) + "$d << end\n" + data +
                              "end\nplot " + bars + "\n",
                          height_of_bars(labels_of(rows))});
}

Figure seconds_of_training(const Run& run) {
  if (run.epochs.empty()) return std::nullopt;
  double sum = 0;
  for (const Epoch& epoch : run.epochs) sum += epoch.seconds.total;
  return sum;
}

/// Each bar has its figures at its end, so that nothing must be looked up on an axis.
void draw_training(const std::vector<Group>& groups, Drawings& drawings) {
  const MainFigure figure = main_figure(groups);
  std::vector<std::string> labels;
  std::string data, text;
  double most = 0;
  for (const Group& group : groups) {
    const Spread seconds = group.spread(seconds_of_training);
    const Spread result = group.spread([&](const Run& run) { return figure.of(run); });
    if (seconds.known == 0 || result.known == 0) continue;
    const std::string said =
        fmt::format("{:.3g} s, {:.{}f}{}", seconds.mean, figure.scale() * result.mean,
                    figure.metric.fraction ? 1 : 3, figure.metric.fraction ? " %" : "");
    data += fmt::format("{} {} {} \"{}\"\n", labels.size(), data_text(seconds.mean),
                        data_text(seconds.deviation.value_or(0)), said);
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", group.label, said);
    labels.push_back(group.label);
    most = std::max(most, seconds.mean + seconds.deviation.value_or(0));
  }
  if (labels.empty()) return;           // another plot says why
  constexpr double kRoomForText = 2.2;  // times the longest bar
  const std::string title = "Seconds of training";
  drawings.all.push_back(
      {"training-seconds", title,
       fmt::format("{}, and {} at its end: {}.", title, figure.title(), text),
       frame(title, "seconds, " + figure.title(), "", Key::none) +
           bar_rows(labels, kRoomForText * most) +
           fmt::format("set xrange [0:{:.9g}]\n", kRoomForText * most) + "$d << end\n" + data +
           fmt::format("end\nplot $d using 2:1:(0):2:($1-0.36):($1+0.36) with boxxyerror fs solid "
                       "noborder lc rgb '{}', $d using 2:1:3 with xerrorbars pt -1 lc rgb '{}', "
                       "$d using ($2+$3):1:4 with labels left offset 0.5,0 font ',12'\n",
                       colour(0), kNeutral),
       height_of_bars(labels)});
}

void draw_bits(const std::vector<Group>& groups, Drawings& drawings) {
  std::vector<std::string> labels;
  std::string data, text;
  double most = 0;
  for (const Group& group : groups) {
    const Spread bits = group.spread([](const Run& run) { return run.outcome.bits_per_value; });
    if (bits.known == 0) continue;
    data += fmt::format("{} {} {}\n", labels.size(), data_text(bits.mean),
                        data_text(bits.deviation.value_or(0)));
    text += fmt::format("{}{}: {:.4g}", text.empty() ? "" : "; ", group.label, bits.mean);
    labels.push_back(group.label);
    most = std::max(most, bits.mean + bits.deviation.value_or(0));
  }
  if (labels.empty()) return;  // nothing was sent
  const std::string title = "Bits per gradient value";
  drawings.all.push_back(
      {"bits-per-value", title, "Bits of a message per value that it carries: " + text + ".",
       frame(title, "bits per value", "", Key::none) + bar_rows(labels, most) + "$d << end\n" +
           data +
           fmt::format("end\nplot $d using 2:1:(0):2:($1-0.36):($1+0.36) with boxxyerror fs solid "
                       "noborder lc rgb '{}', $d using 2:1:3 with xerrorbars pt -1 lc rgb '{}'\n",
                       colour(0), kNeutral),
       height_of_bars(labels)});
}

}  // namespace

void draw_bars(const std::vector<Group>& groups, Drawings& drawings) {
  draw_training(groups, drawings);
  draw_phases(groups, drawings);
  draw_bits(groups, drawings);
}

}  // namespace eqt::report
