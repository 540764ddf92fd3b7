// SPDX-License-Identifier: Apache-2.0
// The losses of the tasks, as PyTorch defines them: cross_entropy with label smoothing and class
// weights, binary_cross_entropy_with_logits, mse_loss.
//
// Label smoothing  C. Szegedy et al., CVPR 2016, arXiv:1512.00567, section 7
// Test losses      plain, without smoothing and weights, so that they can be compared

#include "model/torch/task_loss.hpp"

#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/error.hpp"

namespace eqt::model {
namespace {

std::string shape_text(at::IntArrayRef sizes) {
  return fmt::format("[{}]",
                     fmt::join(std::vector<std::int64_t>(sizes.begin(), sizes.end()), ", "));
}

/// Empty if the sizes are equal.
std::string unless(at::IntArrayRef expected, const at::Tensor& output, const char* what) {
  if (output.sizes() == expected) return "";
  return fmt::format("shape {}, {}", shape_text(expected), what);
}

double sum_of(const at::Tensor& values) { return values.sum(at::kDouble).item<double>(); }

/// Every integer is in [0, bound) or, if that is allowed, kIgnored.
void check_range(const data::Array& targets, std::int64_t bound, bool may_ignore) {
  for (const std::int64_t value : targets.get<std::int64_t>()) {
    EQT_CHECK((value >= 0 && value < bound) || (may_ignore && value == data::kIgnored),
              "label {} of {} classes", value, bound);
  }
}

/// Logits (n, classes), classes (n).
class ClassificationLoss final : public TaskLoss {
 public:
  ClassificationLoss(const TaskOptions& options, int outputs)
      : classes_(outputs), smoothing_(options.label_smoothing) {
    if (options.class_weights.empty()) return;
    EQT_CHECK(std::ssize(options.class_weights) == outputs, "{} weights of {} classes",
              options.class_weights.size(), outputs);
    weights_ = at::empty({classes_}, at::kFloat);
    std::ranges::transform(options.class_weights, weights_.data_ptr<float>(),
                           [](double weight) { return static_cast<float>(weight); });
  }

  std::string misfit(const at::Tensor& output, std::int64_t n, const at::Tensor&) const override {
    return unless({n, classes_}, output, "a logit for each sample and class");
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& targets) const override {
    if (!weights_.defined() && smoothing_ == 0) return at::cross_entropy_loss(output, targets);
    const at::Tensor weights = weights_.defined() ? weights_.to(output.device()) : weights_;
    return at::cross_entropy_loss(output, targets, weights, at::Reduction::Mean, data::kIgnored,
                                  smoothing_);
  }
  Evaluation evaluate(const at::Tensor& output, const at::Tensor& targets,
                      std::size_t n) const override {
    const at::Tensor logits = output.to(at::kDouble);
    const at::Tensor right = logits.argmax(1).eq(targets);
    double among_top = 0;
    if (classes_ > kTopClasses) {
      const at::Tensor highest = std::get<1>(logits.topk(kTopClasses, 1));
      among_top = sum_of(highest.eq(targets.unsqueeze(1)));
    }
    return {
        .loss_sum = at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum).item<double>(),
        .count = n,
        .sums = {static_cast<double>(right.sum().item<long>()), among_top}};
  }
  void check(const data::Array& targets) const override { check_range(targets, classes_, false); }

 private:
  std::int64_t classes_;
  double smoothing_;
  at::Tensor weights_;  // undefined: all 1
};

/// Logits (n, classes), flags (n, classes).
class MultiLabelLoss final : public TaskLoss {
 public:
  explicit MultiLabelLoss(int outputs) : classes_(outputs) {}

  std::string misfit(const at::Tensor& output, std::int64_t n, const at::Tensor&) const override {
    return unless({n, classes_}, output, "a logit for each sample and class");
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& targets) const override {
    return at::binary_cross_entropy_with_logits(output, targets);
  }
  Evaluation evaluate(const at::Tensor& output, const at::Tensor& targets,
                      std::size_t n) const override {
    const at::Tensor logits = output.to(at::kDouble);
    const at::Tensor losses = at::binary_cross_entropy_with_logits(logits, targets.to(at::kDouble),
                                                                   {}, {}, at::Reduction::None);
    const at::Tensor found = logits.gt(0), there = targets.gt(0.5);
    return {.loss_sum = losses.sum().item<double>() / static_cast<double>(classes_),
            .count = n,
            .sums = {sum_of(found.eq(there).all(1)), sum_of(found.logical_and(there)),
                     sum_of(found.logical_and(there.logical_not())),
                     sum_of(found.logical_not().logical_and(there))}};
  }

 private:
  std::int64_t classes_;
};

/// Values and targets (n, ...) of as many values.
class RegressionLoss final : public TaskLoss {
 public:
  explicit RegressionLoss(int outputs) : outputs_(outputs) {}

  std::string misfit(const at::Tensor& output, std::int64_t n,
                     const at::Tensor& targets) const override {
    if (output.dim() > 0 && output.size(0) == n && output.numel() == n * outputs_) return "";
    return fmt::format("shape {}, like the targets", shape_text(targets.sizes()));
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& targets) const override {
    return at::mse_loss(output.reshape(targets.sizes()), targets);
  }
  Evaluation evaluate(const at::Tensor& output, const at::Tensor& targets,
                      std::size_t n) const override {
    const std::int64_t rows = targets.size(0);
    const at::Tensor wanted = targets.to(at::kDouble).reshape({rows, outputs_});
    const at::Tensor errors = output.to(at::kDouble).reshape({rows, outputs_}) - wanted;
    const auto k = static_cast<double>(outputs_);
    const at::Tensor by_output =
        at::stack({errors.square().sum(0), wanted.sum(0), wanted.square().sum(0)}, 1)
            .cpu()
            .contiguous();
    Evaluation result{
        .loss_sum = sum_of(errors.square()) / k, .count = n, .sums = {sum_of(errors.abs()) / k}};
    const auto* const sums = by_output.data_ptr<double>();
    result.sums.insert(result.sums.end(), sums, sums + by_output.numel());
    return result;
  }

 private:
  std::int64_t outputs_;
};

/// Logits (n, length, tokens or more), tokens (n, length): each the one that follows. A network
/// may know more tokens than the data have.
class LanguageModelLoss final : public TaskLoss {
 public:
  explicit LanguageModelLoss(int outputs) : tokens_(outputs) {}

  std::string misfit(const at::Tensor& output, std::int64_t n,
                     const at::Tensor& targets) const override {
    const std::int64_t length = targets.size(1);
    if (output.dim() == 3 && output.size(0) == n && output.size(1) == length &&
        output.size(2) >= tokens_)
      return "";
    return fmt::format("shape [{}, {}, at least {}], a logit for each place and token", n, length,
                       tokens_);
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& targets) const override {
    return at::cross_entropy_loss(output.flatten(0, 1), targets.flatten());
  }
  Evaluation evaluate(const at::Tensor& output, const at::Tensor& targets,
                      std::size_t) const override {
    Evaluation sums;
    for (std::int64_t i = 0; i < output.size(0); ++i) {  // one by one: float64 takes much room
      const at::Tensor losses =
          at::cross_entropy_loss(output[i].to(at::kDouble), targets[i], {}, at::Reduction::Sum);
      sums.loss_sum += losses.item<double>();
    }
    sums.count = static_cast<std::size_t>(targets.ne(data::kIgnored).sum().item<long>());
    return sums;
  }
  void check(const data::Array& targets) const override { check_range(targets, tokens_, true); }

 private:
  std::int64_t tokens_;
};

/// The output is the loss, a mean over the samples.
class ModuleLoss final : public TaskLoss {
 public:
  std::string misfit(const at::Tensor& output, std::int64_t, const at::Tensor&) const override {
    return output.numel() == 1 ? "" : "a single value, the mean loss over the batch";
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor&) const override {
    return output.reshape({});
  }
  Evaluation evaluate(const at::Tensor& output, const at::Tensor&, std::size_t n) const override {
    return {.loss_sum = output.to(at::kDouble).item<double>() * static_cast<double>(n), .count = n};
  }
};

}  // namespace

std::unique_ptr<TaskLoss> make_task_loss(const TaskOptions& options, int outputs) {
  const Entry<TaskRow> kind = options.kind;
  if (kind == tasks::classification) return std::make_unique<ClassificationLoss>(options, outputs);
  if (kind == tasks::multi_label) return std::make_unique<MultiLabelLoss>(outputs);
  if (kind == tasks::regression) return std::make_unique<RegressionLoss>(outputs);
  if (kind == tasks::language_model) return std::make_unique<LanguageModelLoss>(outputs);
  if (kind == tasks::module) return std::make_unique<ModuleLoss>();
  fail(Kind::bug, "no loss for the task {}", kind->name);
}

}  // namespace eqt::model
