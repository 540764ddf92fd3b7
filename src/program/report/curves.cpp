// SPDX-License-Identifier: Apache-2.0
// Figures of epochs as lines, one per group, with a band of one deviation over seeds.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "figures/script.hpp"
#include "report/drawing.hpp"
#include "report/quantities.hpp"

namespace eqt::report {
using figures::frame;
using figures::height_with_key;
using figures::kMaxCurves;
using figures::Line;
using figures::lines_script;
using figures::logarithmic;
using figures::Marks;
using figures::wants_logarithm;
using figures::x_tics;

namespace {

/// The horizontal axis: a value after each epoch of a run.
struct Axis {
  const char* name;
  const char* label;
  bool may_be_logarithmic;
  std::vector<double> (*of)(const Run&);  // null: its points are not those of epochs
};

std::vector<double> epochs_of(const Run& run) {
  std::vector<double> x;
  for (const Epoch& epoch : run.epochs) x.push_back(static_cast<double>(epoch.epoch));
  return x;
}

std::vector<double> seconds_of(const Run& run) {
  std::vector<double> x;
  double sum = 0;
  for (const Epoch& epoch : run.epochs) x.push_back(sum += epoch.seconds.total);
  return x;
}

std::vector<double> megabytes_of(const Run& run) {
  std::vector<double> x;
  double sum = 0;
  for (const Epoch& epoch : run.epochs)
    x.push_back(sum += static_cast<double>(epoch.sent_bytes) / run.ranks / 1e6);
  return x;
}

constexpr Axis kEpochs{"epochs", "epoch", false, epochs_of};
constexpr Axis kSeconds{"seconds", "seconds of training", true, seconds_of};
constexpr Axis kBytes{"bytes", "sent per rank [MB]", true, megabytes_of};

/// The vertical axis.
struct Height {
  std::string name;
  std::string title;
  std::string label;
  std::function<Figure(const Epoch&)> figure;
  double scale;
  bool gaps;         // an epoch without a value breaks the line; otherwise it was not evaluated
  bool logarithmic;  // if all values are positive
};

const Height kAccuracy{
    "accuracy", "Test accuracy", "test accuracy [%]", &Epoch::test_accuracy, 100, false, false};
const Height kLoss{"loss", "Training loss", "training loss", &Epoch::train_loss, 1, true, false};
const Height kTestLoss{"test-loss", "Test loss", "test loss", &Epoch::test_loss, 1, false, false};
const Height kVariance{"variance",
                       "Quantization variance",
                       "|decoded - exact|^2 / |exact|^2",
                       &Epoch::quantization_variance,
                       1,
                       true,
                       true};
const Height kMeanVariance{"mean-variance",
                           "Quantization variance of the mean",
                           "|applied - exact|^2 / |exact|^2",
                           &Epoch::mean_quantization_variance,
                           1,
                           true,
                           true};
const Height kConsensus{"consensus",
                        "Consensus distance",
                        "root mean square of |x_i - mean|",
                        &Epoch::consensus_distance,
                        1,
                        true,
                        true};

/// A metric of the task.
Height height_of(const metrics::MetricRecord& metric) {
  if (metric.name == "accuracy") return kAccuracy;
  const MainFigure figure{metric};
  std::string name = "test-" + metric.name;
  std::ranges::replace(name, '_', '-');
  return {name,
          capitalised(figure.title()),
          figure.head() + (metric.higher_is_better ? "" : ", lower is better"),
          [name = metric.name](const Epoch& epoch) { return metric_of(epoch, name); },
          figure.scale(),
          false,
          false};
}

struct Point {
  double x;
  Spread y;
};

std::vector<Point> points_of(const Group& group, const Axis& axis, const Height& height) {
  struct Epochs {
    std::vector<Figure> x, y;
  };
  std::map<std::uint64_t, Epochs> by_epoch;
  for (const Run* run : group.runs) {
    const std::vector<double> x = axis.of(*run);
    for (std::size_t i = 0; i < run->epochs.size(); ++i) {
      Epochs& epochs = by_epoch[run->epochs[i].epoch];
      epochs.x.push_back(x[i]);
      epochs.y.push_back(height.figure(run->epochs[i]));
    }
  }
  std::vector<Point> points;
  for (const auto& [epoch, values] : by_epoch) {
    const Spread x = spread_of(values.x), y = spread_of(values.y);
    if (x.known > 0 && (y.known > 0 || height.gaps)) points.push_back({x.mean, y});
  }
  return points;
}

struct Curve {
  std::string label;
  Style style;
  std::vector<Point> points;
};

std::vector<Curve> curves_of(const std::vector<Group>& groups, const Axis& axis,
                             const Height& height) {
  const std::vector<Style> styles = styles_of(groups);
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < std::min(groups.size(), kMaxCurves); ++i) {
    Curve curve{groups[i].label, styles[i], points_of(groups[i], axis, height)};
    if (std::ranges::any_of(curve.points, [](const Point& p) { return p.y.known > 0; }))
      curves.push_back(curve);
  }
  return curves;
}

/// Places at most about ten tics, at whole numbers of epochs.
std::string epoch_tics(const std::vector<Curve>& curves) {
  constexpr double kMaxTics = 10;
  double last = 1;
  for (const Curve& curve : curves)
    for (const Point& p : curve.points) last = std::max(last, p.x);
  return fmt::format("set xtics {}\n", std::ceil(last / kMaxTics));
}

Line line_of(const Curve& curve, const Height& height) {
  Line line{curve.label, curve.style, {}};
  for (const Point& p : curve.points) {
    const double y = p.y.mean * height.scale;
    const double deviation = p.y.deviation.value_or(0) * height.scale;
    const auto known = [&](double value) { return p.y.known > 0 ? Figure(value) : Figure(); };
    line.points.push_back({p.x, known(y), known(y - deviation), known(y + deviation)});
  }
  return line;
}

/// "float32: 69.2 at 5; qsgd: 68.4 at 5".
std::string last_values(const std::vector<Curve>& curves, const Height& height) {
  std::string text;
  for (const Curve& curve : curves) {
    const auto last = std::find_if(curve.points.rbegin(), curve.points.rend(),
                                   [](const Point& p) { return p.y.known > 0; });
    text += fmt::format("{}{}: {:.4g} at {:.4g}", text.empty() ? "" : "; ", curve.label,
                        last->y.mean * height.scale, last->x);
  }
  return text;
}

/// Logarithmic axes, and the tics of a linear one.
std::string axes(const std::vector<Curve>& curves, const Axis& axis, const Height& height) {
  std::vector<double> x, y;
  for (const Curve& curve : curves) {
    for (const Point& p : curve.points) {
      x.push_back(p.x);
      if (p.y.known > 0) y.push_back(p.y.mean - p.y.deviation.value_or(0));
    }
  }
  const bool logarithmic_x = axis.may_be_logarithmic && wants_logarithm(x);
  const auto [least, most] = std::ranges::minmax(x);
  return logarithmic(logarithmic_x, height.logarithmic && wants_logarithm(y)) +
         (logarithmic_x ? "" : x_tics(least, most));
}

/// Draws nothing if there are no curves.
void draw_lines(const std::vector<Curve>& curves, const Axis& axis, const Height& height,
                Drawings& drawings) {
  const std::string title = fmt::format("{} against {}", height.title, axis.name);
  if (curves.empty()) return;
  Drawing drawing{.name = fmt::format("{}-{}", height.name, axis.name), .title = title};
  drawing.script = frame(title, axis.label, height.label) + axes(curves, axis, height);
  const bool of_steps = axis.of == nullptr;
  if (axis.of == kEpochs.of) drawing.script += epoch_tics(curves);
  std::vector<Line> lines;
  std::vector<std::string> labels;
  for (const Curve& curve : curves) {
    labels.push_back(curve.label);
    lines.push_back(line_of(curve, height));
  }
  drawing.script += lines_script(lines, of_steps ? Marks::none : Marks::points);
  drawing.height = height_with_key(labels);
  drawing.description = fmt::format("{} over {}, the last of each line: {}.", height.label,
                                    axis.label, last_values(curves, height));
  drawings.all.push_back(drawing);
}

/// Draws nothing if no run has such figures.
void draw(const std::vector<Group>& groups, const Axis& axis, const Height& height,
          Drawings& drawings) {
  draw_lines(curves_of(groups, axis, height), axis, height, drawings);
}

/// The mean loss of neighbouring steps, and a deviation over seeds.
void draw_step_losses(const std::vector<Group>& groups, Drawings& drawings) {
  const Axis steps{"steps", "step", false, nullptr};
  const Height height{"loss", "Training loss", "training loss", {}, 1, true, false};
  const std::vector<Style> styles = styles_of(groups);
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < std::min(groups.size(), kMaxCurves); ++i) {
    std::map<std::uint64_t, std::vector<Figure>> by_step;
    for (const Run* run : groups[i].runs)
      for (const StepLosses& losses : run->step_losses)
        by_step[losses.last].push_back(losses.mean());
    Curve curve{groups[i].label, styles[i], {}};
    for (const auto& [step, losses] : by_step)
      curve.points.push_back({static_cast<double>(step), spread_of(losses)});
    const auto is_known = [](const Point& p) { return p.y.known > 0; };
    if (std::ranges::count_if(curve.points, is_known) > 1) curves.push_back(std::move(curve));
  }
  draw_lines(curves, steps, height, drawings);
}

/// Only figures that a run could have recorded: emulated runs have neither loss nor accuracy, and
/// variance and consensus distance need lossy messages or gossip.
void say_what_is_missing(const std::vector<Group>& groups, Drawings& drawings) {
  const auto any = [&](Figure metrics::Figures::*figure) {
    return std::ranges::any_of(groups, [&](const Group& group) {
      return std::ranges::any_of(group.runs, [&](const Run* run) {
        return std::ranges::any_of(run->epochs,
                                   [&](const Epoch& epoch) { return (epoch.*figure).has_value(); });
      });
    });
  };
  if (groups.front().first().emulated) return;
  if (!any(&Epoch::train_loss)) {
    drawings.left_out.push_back("No plots of losses and accuracies: no run finished an epoch.");
  } else if (!any(&Epoch::test_loss) && !any(&Epoch::test_accuracy)) {
    drawings.left_out.push_back("No plots of test accuracy: no run was evaluated.");
  }
}

}  // namespace

void draw_curves(const std::vector<Group>& groups, Drawings& drawings) {
  say_what_is_missing(groups, drawings);
  const MainFigure main = main_figure(groups);
  for (const Height& height : {height_of(main.metric), kLoss})
    for (const Axis& axis : {kEpochs, kSeconds, kBytes}) draw(groups, axis, height, drawings);
  draw_step_losses(groups, drawings);
  for (const metrics::MetricRecord& metric : groups.front().first().metrics)
    if (metric.name != main.metric.name && metric.name != "loss")
      draw(groups, kEpochs, height_of(metric), drawings);
  for (const Height& height : {kTestLoss, kVariance, kMeanVariance, kConsensus})
    draw(groups, kEpochs, height, drawings);
  if (groups.size() > kMaxCurves)
    drawings.left_out.push_back(fmt::format(
        "Lines and points are those of the first {} of {} rows: more could not be distinguished.",
        kMaxCurves, groups.size()));
}

}  // namespace eqt::report
