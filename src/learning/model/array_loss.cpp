// SPDX-License-Identifier: Apache-2.0
#include "model/array_loss.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::model {
namespace {

constexpr std::size_t kTop{kTopClasses};

/// log(sum of exp(x)).
double log_sum(std::span<const float> x) {
  const double largest = *std::ranges::max_element(x);
  double sum = 0;
  for (const float v : x) sum += std::exp(v - largest);
  return largest + std::log(sum);
}

/// Binary cross entropy of a logit.
double flag_loss(double x, double flag) {
  return std::max(x, 0.0) - x * flag + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

ArrayLoss::ArrayLoss(const TaskOptions& options, int outputs)
    : options_(options), outputs_(static_cast<std::size_t>(outputs)) {
  EQT_CHECK(options.class_weights.empty() || options.class_weights.size() == outputs_,
            "{} weights of {} classes", options.class_weights.size(), outputs);
}

double ArrayLoss::weight_of(std::int64_t label) const {
  if (options_.class_weights.empty()) return 1;
  return static_cast<float>(options_.class_weights[static_cast<std::size_t>(label)]);
}

double ArrayLoss::loss(std::span<const float> outputs, const data::Array& targets, double share,
                       std::span<float> gradient) const {
  if (options_.kind == tasks::classification)
    return classification(outputs, targets.get<std::int64_t>(), share, gradient);
  return other(outputs, targets.get<float>(), gradient);
}

double ArrayLoss::classification(std::span<const float> outputs,
                                 std::span<const std::int64_t> labels, double share,
                                 std::span<float> gradient) const {
  const std::size_t n = labels.size();
  double weights = 0, loss = 0;
  for (const std::int64_t label : labels) {
    EQT_CHECK(label >= 0 && label < static_cast<std::int64_t>(outputs_), "label {} of {} classes",
              label, outputs_);
    weights += weight_of(label);
  }
  const double spread = options_.label_smoothing / static_cast<double>(outputs_);
  const double sure = 1 - options_.label_smoothing;
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = outputs.subspan(i * outputs_, outputs_);
    const std::int64_t own = labels[i], partner = labels[n - 1 - i];
    const double all = log_sum(x);
    // Class j counts by its share of the target times its weight, over the sum of the labels'
    // weights.
    const auto target = [&](std::size_t j) {
      const auto label = static_cast<std::int64_t>(j);
      const double hit = (label == own ? share : 0) + (label == partner ? 1 - share : 0);
      return (spread + sure * hit) * weight_of(label) / weights;
    };
    double sum = 0;
    for (std::size_t j = 0; j < outputs_; ++j) {
      sum += target(j);
      loss += target(j) * (all - x[j]);
    }
    for (std::size_t j = 0; j < outputs_; ++j)
      gradient[i * outputs_ + j] = static_cast<float>(sum * std::exp(x[j] - all) - target(j));
  }
  return loss;
}

double ArrayLoss::other(std::span<const float> outputs, std::span<const float> targets,
                        std::span<float> gradient) const {
  const bool flags = options_.kind == tasks::multi_label;
  const auto count = static_cast<double>(outputs.size());
  EQT_CHECK(targets.size() == outputs.size(), "{} targets of {} outputs", targets.size(),
            outputs.size());
  double loss = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double x = outputs[i], t = targets[i];
    loss += flags ? flag_loss(x, t) : (x - t) * (x - t);
    const double slope = flags ? 1 / (1 + std::exp(-x)) - t : 2 * (x - t);
    gradient[i] = static_cast<float>(slope / count);
  }
  return loss / count;
}

Evaluation ArrayLoss::evaluate(std::span<const float> outputs, const data::Array& targets) const {
  if (options_.kind == tasks::classification)
    return evaluate_classes(outputs, targets.get<std::int64_t>());
  if (options_.kind == tasks::multi_label) return evaluate_flags(outputs, targets.get<float>());
  return evaluate_values(outputs, targets.get<float>());
}

Evaluation ArrayLoss::evaluate_classes(std::span<const float> outputs,
                                       std::span<const std::int64_t> labels) const {
  Evaluation result{.count = labels.size(), .sums = {0, 0}};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto x = outputs.subspan(i * outputs_, outputs_);
    const auto label = static_cast<std::size_t>(labels[i]);
    EQT_CHECK(label < outputs_, "label {} of {} classes", labels[i], outputs_);
    result.loss_sum += log_sum(x) - x[label];
    std::size_t before = 0;  // classes ahead of the right one
    for (std::size_t j = 0; j < outputs_; ++j)
      if (x[j] > x[label] || (x[j] == x[label] && j < label)) ++before;
    result.sums[0] += before == 0 ? 1 : 0;
    result.sums[1] += outputs_ > kTop && before < kTop ? 1 : 0;
  }
  return result;
}

Evaluation ArrayLoss::evaluate_flags(std::span<const float> outputs,
                                     std::span<const float> flags) const {
  Evaluation result{.count = flags.size() / outputs_, .sums = {0, 0, 0, 0}};
  for (std::size_t i = 0; i < result.count; ++i) {
    bool all = true;
    for (std::size_t j = i * outputs_; j < (i + 1) * outputs_; ++j) {
      const bool found = outputs[j] > 0, there = flags[j] > 0.5f;
      result.loss_sum += flag_loss(outputs[j], flags[j]) / static_cast<double>(outputs_);
      all = all && found == there;
      if (found || there) result.sums[found && there ? 1u : found ? 2u : 3u] += 1;
    }
    result.sums[0] += all ? 1 : 0;
  }
  return result;
}

Evaluation ArrayLoss::evaluate_values(std::span<const float> outputs,
                                      std::span<const float> values) const {
  const auto k = static_cast<double>(outputs_);
  Evaluation result{.count = values.size() / outputs_,
                    .sums = std::vector<double>(1 + 3 * outputs_)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wanted = values[i], error = outputs[i] - wanted;
    double* const by_output = &result.sums[1 + 3 * (i % outputs_)];
    result.loss_sum += error * error / k;
    result.sums[0] += std::abs(error) / k;
    by_output[0] += error * error;
    by_output[1] += wanted;
    by_output[2] += wanted * wanted;
  }
  return result;
}

}  // namespace eqt::model
