// SPDX-License-Identifier: Apache-2.0
// The catalogue of tasks, and the metrics.
//
// R2      1 - sum of squared errors / sum of squared distances of the targets from their mean; with
//         several outputs the mean over them, as scikit-learn's r2_score
// F1      2 tp / (2 tp + fp + fn) over the flags of all classes ("micro")

#include "model/task.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "core/gamma.hpp"

namespace eqt::model {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr int kMaxOutputs = 1 << 20;

double ratio(double part, double whole) { return whole > 0 ? part / whole : kUndefined; }

/// Sum `i` by the number of samples.
template <std::size_t i>
double share(const Evaluation& e) {
  return ratio(e.sums.at(i), static_cast<double>(e.count));
}

double loss(const Evaluation& e) { return ratio(e.loss_sum, static_cast<double>(e.count)); }
double perplexity(const Evaluation& e) { return std::exp(loss(e)); }

/// Returns the F1 score of all flags; 1 if there are none and none was found.
double micro_f1(const Evaluation& e) {
  const double found = 2 * e.sums.at(1), wrong = e.sums.at(2) + e.sums.at(3);
  return found + wrong > 0 ? found / (found + wrong) : 1;
}

double r2(const Evaluation& e) {
  constexpr std::size_t kFirst = 1, kEach = 3;
  const auto n = static_cast<double>(e.count);
  double sum = 0, outputs = 0;
  for (std::size_t i = kFirst; i + kEach <= e.sums.size(); i += kEach) {
    const double errors = e.sums[i];
    const double spread = std::max(0.0, e.sums[i + 2] - e.sums[i + 1] * e.sums[i + 1] / n);
    outputs += 1;
    if (spread > 0) {
      sum += 1 - errors / spread;
    } else {
      sum += errors == 0 ? 1 : 0;  // all targets are equal
    }
  }
  return ratio(sum, outputs);
}

constexpr Metric kClassification[] = {
    {.name = "accuracy", .title = "accuracy", .fraction = true, .of = share<0>},
    {.name = "top5",
     .title = "top-5",
     .fraction = true,
     .outputs_above = kTopClasses,
     .of = share<1>}};
constexpr Metric kMultiLabel[] = {
    {.name = "f1", .title = "F1", .fraction = true, .of = micro_f1},
    {.name = "accuracy", .title = "accuracy", .fraction = true, .of = share<0>}};
constexpr Metric kRegression[] = {
    {.name = "mse", .title = "MSE", .higher_is_better = false, .of = loss},
    {.name = "mae", .title = "MAE", .higher_is_better = false, .of = share<0>},
    {.name = "r2", .title = "R2", .of = r2}};
constexpr Metric kLanguageModel[] = {
    {.name = "perplexity", .title = "perplexity", .higher_is_better = false, .of = perplexity}};
constexpr Metric kModule[] = {
    {.name = "loss", .title = "loss", .higher_is_better = false, .of = loss}};

constexpr std::string_view kClassificationKeys[] = {"label_smoothing", "class_weights"};

int outputs_of_target(const TaskRow& task, const std::optional<data::ArraySpec>& target,
                      int classes) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  const auto narrow = [&](std::size_t n) { return static_cast<int>(std::min(n, kMost)); };
  switch (task.target) {
    case data::TargetKind::classes:
      return classes;
    case data::TargetKind::flags:
    case data::TargetKind::values:
      return narrow(target->values());
    case data::TargetKind::tokens:
      return narrow(static_cast<std::size_t>(target->bound));
    case data::TargetKind::any:
      return std::max(1, classes);
  }
  return 0;
}

}  // namespace

#define EQT_TASK(id, ...) const TaskRow tasks::id = {__VA_ARGS__};
#include "model/tasks.def"

const Catalogue<TaskRow>& TaskRow::all() {
  static const Catalogue<TaskRow> rows = {
#define EQT_TASK(id, ...) tasks::id,
#include "model/tasks.def"
  };
  return rows;
}

Evaluation& Evaluation::operator+=(const Evaluation& other) {
  loss_sum += other.loss_sum;
  count += other.count;
  sums.resize(std::max(sums.size(), other.sums.size()));
  std::transform(other.sums.begin(), other.sums.end(), sums.begin(), sums.begin(), std::plus<>());
  return *this;
}

int outputs_of(const TaskRow& task, std::string_view data_set,
               const std::optional<data::ArraySpec>& target, int classes) {
  if (!data::fits(task.target, target, classes)) {
    std::string others;
    for (const Entry<TaskRow> row : TaskRow::all())
      if (data::fits(row->target, target, classes))
        others += fmt::format("{}\"{}\"", others.empty() ? "" : " or ", row->name);
    fail(Kind::usage,
         "task.kind \"{}\": expected a data set with {}, found {} with {} and {} classes; set "
         "task.kind to {}",
         task.name, data::text_of(task.target), data_set,
         target ? data::text_of(*target) : "no targets", classes, others);
  }
  const int outputs = outputs_of_target(task, target, classes);
  if (outputs < task.least_outputs || outputs > kMaxOutputs)
    fail(Kind::usage, "task.kind \"{}\": expected {} to {} {}, found {} in {}", task.name,
         task.least_outputs, kMaxOutputs,
         task.target == data::TargetKind::classes  ? "classes"
         : task.target == data::TargetKind::tokens ? "tokens"
                                                   : "values of a target",
         outputs, data_set);
  return outputs;
}

std::vector<metrics::MetricRecord> Measures::of(const Evaluation* evaluation) const {
  Evaluation known;
  if (evaluation != nullptr) known = *evaluation;
  known.sums.resize(sums());
  std::vector<metrics::MetricRecord> all;
  for (const Metric& metric : task->metrics) {
    if (outputs <= metric.outputs_above) continue;
    all.push_back({.name = std::string(metric.name),
                   .title = std::string(metric.title),
                   .higher_is_better = metric.higher_is_better,
                   .fraction = metric.fraction,
                   .value = evaluation == nullptr ? kUndefined : metric.of(known)});
  }
  return all;
}

double draw_mixup_share(double alpha, const RandomKey& key) {
  // Streams of dropout have the same key, so this one has a seed of its own.
  constexpr std::uint64_t kAside = 0x6D6978757000;
  RandomKey own = key;
  own.run_seed = mix64(key.run_seed ^ kAside);
  RandomSequence draws(own);
  // X / (X + Y) of two draws of Gamma(alpha, 1) is one of Beta(alpha, alpha).
  const double first = log_gamma_draw(alpha, draws), second = log_gamma_draw(alpha, draws);
  return 1 / (1 + std::exp(second - first));
}

}  // namespace eqt::model
