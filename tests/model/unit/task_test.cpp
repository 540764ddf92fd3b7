// SPDX-License-Identifier: Apache-2.0
// Losses and sums of the tasks against their definitions, written out in doubles.

#include "model/torch/task_loss.hpp"

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/random.hpp"
#undef CHECK  // LibTorch's logging has a macro of the same name as Catch2's
#include "support/refusal.hpp"

namespace eqt::model {
namespace {

using Rows = std::vector<std::vector<double>>;

/// (rows, columns) of uniform numbers in [-2, 2).
Rows drawn(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  const RandomStream random({.run_seed = seed});
  Rows all(rows, std::vector<double>(columns));
  std::uint32_t i = 0;
  for (auto& row : all)
    for (double& value : row) value = 4 * static_cast<double>(random.uniform(i++)) - 2;
  return all;
}

at::Tensor tensor_of(const Rows& rows) {
  at::Tensor all = at::empty({std::ssize(rows), std::ssize(rows.front())}, at::kFloat);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c < rows[r].size(); ++c)
      all[static_cast<std::int64_t>(r)][static_cast<std::int64_t>(c)] = rows[r][c];
  return all;
}

at::Tensor tensor_of(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}

/// -log of the softmax's share of each class.
std::vector<double> surprises(const std::vector<double>& logits) {
  double sum = 0;
  for (const double z : logits) sum += std::exp(z);
  std::vector<double> all;
  for (const double z : logits) all.push_back(std::log(sum) - z);
  return all;
}

double value_of(const Measures& measures, const Evaluation& evaluation, std::string_view name) {
  for (const metrics::MetricRecord& metric : measures.of(&evaluation))
    if (metric.name == name) return metric.value;
  FAIL("no metric is called " << name);
  return 0;
}

/// The sums of the first `split` samples and of the others are those of all.
void check_sums(const TaskLoss& loss, const at::Tensor& output, const at::Tensor& targets,
                std::int64_t split) {
  const std::int64_t n = output.size(0);
  const Evaluation all = loss.evaluate(output, targets, static_cast<std::size_t>(n));
  Evaluation sum;
  sum += loss.evaluate(output.slice(0, 0, split), targets.slice(0, 0, split),
                       static_cast<std::size_t>(split));
  sum += loss.evaluate(output.slice(0, split), targets.slice(0, split),
                       static_cast<std::size_t>(n - split));
  CHECK(sum.count == all.count);
  CHECK(sum.loss_sum == Approx(all.loss_sum).epsilon(1e-12));
  REQUIRE(sum.sums.size() == all.sums.size());
  for (std::size_t i = 0; i < sum.sums.size(); ++i)
    CHECK(sum.sums[i] == Approx(all.sums[i]).epsilon(1e-12).margin(1e-12));
}

TEST_CASE("classification: cross entropy, with smoothing and class weights", "[task]") {
  constexpr std::size_t kSamples = 9, kClasses = 4;
  const Rows logits = drawn(kSamples, kClasses, 1);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < kSamples; ++i) labels.push_back(static_cast<std::int64_t>(i * i % 4));
  const std::vector<double> weights = {0.5, 2, 1, 4};
  for (const bool weighted : {false, true}) {
    for (const double smoothing : {0.0, 0.1}) {
      CAPTURE(weighted, smoothing);
      // The target of class c is (1 - s) [c = y] + s / C, and each term has the weight of its
      // class; the sum is divided by that of the labels' weights.
      double sum = 0, divisor = 0, plain = 0;
      for (std::size_t i = 0; i < kSamples; ++i) {
        const auto y = static_cast<std::size_t>(labels[i]);
        const std::vector<double> losses = surprises(logits[i]);
        for (std::size_t c = 0; c < kClasses; ++c)
          sum += (weighted ? weights[c] : 1) *
                 ((c == y ? 1 - smoothing : 0) + smoothing / kClasses) * losses[c];
        divisor += weighted ? weights[y] : 1;
        plain += losses[y];
      }
      TaskOptions options{.label_smoothing = smoothing};
      if (weighted) options.class_weights = weights;
      const auto loss = make_task_loss(options, kClasses);
      CHECK(loss->loss(tensor_of(logits), tensor_of(labels)).item<double>() ==
            Approx(sum / divisor).epsilon(1e-6));
      const Evaluation evaluation = loss->evaluate(tensor_of(logits), tensor_of(labels), kSamples);
      CHECK(evaluation.loss_sum == Approx(plain).epsilon(1e-6));
      CHECK(evaluation.count == kSamples);
    }
  }
}

TEST_CASE("classification: shares of samples whose class is the first, and among the first five",
          "[task]") {
  constexpr std::size_t kSamples = 40, kClasses = 8;
  const Rows logits = drawn(kSamples, kClasses, 2);
  std::vector<std::int64_t> labels;
  double first = 0, top = 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t y = i % kClasses;
    labels.push_back(static_cast<std::int64_t>(y));
    const auto larger =
        std::ranges::count_if(logits[i], [&](double z) { return z > logits[i][y]; });
    first += larger == 0 ? 1 : 0;
    top += larger < 5 ? 1 : 0;
  }
  REQUIRE((first > 0 && top > first && top < kSamples));
  const Measures measures{.task = tasks::classification, .outputs = kClasses};
  const auto loss = make_task_loss({}, kClasses);
  const Evaluation evaluation = loss->evaluate(tensor_of(logits), tensor_of(labels), kSamples);
  CHECK(value_of(measures, evaluation, "accuracy") == first / kSamples);
  CHECK(value_of(measures, evaluation, "top5") == top / kSamples);
  check_sums(*loss, tensor_of(logits), tensor_of(labels), 7);
  // With up to five classes the first five are all.
  CHECK(Measures{.task = tasks::classification, .outputs = 5}.of(nullptr).size() == 1);
}

TEST_CASE("multi-label: binary cross entropy, F1 and samples without a wrong flag", "[task]") {
  constexpr std::size_t kSamples = 30, kClasses = 2;
  const Rows logits = drawn(kSamples, kClasses, 3);
  Rows flags = drawn(kSamples, kClasses, 4);
  double losses = 0, exact = 0, right = 0, false_alarms = 0, missed = 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    bool all = true;
    for (std::size_t c = 0; c < kClasses; ++c) {
      const double z = logits[i][c], y = flags[i][c] = flags[i][c] > 0 ? 1 : 0;
      const double p = 1 / (1 + std::exp(-z));
      losses -= y * std::log(p) + (1 - y) * std::log(1 - p);
      const bool found = p > 0.5, there = y > 0;
      all = all && found == there;
      right += found && there ? 1 : 0;
      false_alarms += found && !there ? 1 : 0;
      missed += !found && there ? 1 : 0;
    }
    exact += all ? 1 : 0;
  }
  REQUIRE((exact > 0 && right > 0 && false_alarms > 0 && missed > 0));
  const auto loss = make_task_loss({.kind = tasks::multi_label}, kClasses);
  const Measures measures{.task = tasks::multi_label, .outputs = kClasses};
  const at::Tensor output = tensor_of(logits), targets = tensor_of(flags);
  CHECK(loss->loss(output, targets).item<double>() ==
        Approx(losses / (kSamples * kClasses)).epsilon(1e-6));
  const Evaluation evaluation = loss->evaluate(output, targets, kSamples);
  CHECK(evaluation.loss() == Approx(losses / (kSamples * kClasses)).epsilon(1e-6));
  const double precision = right / (right + false_alarms), recall = right / (right + missed);
  CHECK(value_of(measures, evaluation, "f1") ==
        Approx(2 * precision * recall / (precision + recall)));
  CHECK(value_of(measures, evaluation, "accuracy") == exact / kSamples);
  check_sums(*loss, output, targets, 11);
}

TEST_CASE("regression: squared and absolute error, and R2 as the mean over outputs", "[task]") {
  constexpr std::size_t kSamples = 25;
  for (const std::size_t outputs : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(outputs);
    const Rows found = drawn(kSamples, outputs, 5);
    Rows wanted = drawn(kSamples, outputs, 6);
    for (auto& row : wanted)
      for (std::size_t c = 0; c < outputs; ++c) row[c] += 10.0 * static_cast<double>(c);
    double squares = 0, absolutes = 0, r2 = 0;
    for (std::size_t c = 0; c < outputs; ++c) {
      double mean = 0, errors = 0, spread = 0;
      for (const auto& row : wanted) mean += row[c] / kSamples;
      for (std::size_t i = 0; i < kSamples; ++i) {
        const double error = found[i][c] - wanted[i][c];
        errors += error * error;
        absolutes += std::abs(error);
        spread += (wanted[i][c] - mean) * (wanted[i][c] - mean);
      }
      squares += errors;
      r2 += (1 - errors / spread) / static_cast<double>(outputs);
    }
    const double count = static_cast<double>(kSamples * outputs);
    const auto loss = make_task_loss({.kind = tasks::regression}, static_cast<int>(outputs));
    const Measures measures{.task = tasks::regression, .outputs = static_cast<int>(outputs)};
    const at::Tensor output = tensor_of(found), targets = tensor_of(wanted);
    CHECK(loss->loss(output, targets).item<double>() == Approx(squares / count).epsilon(1e-5));
    const Evaluation evaluation = loss->evaluate(output, targets, kSamples);
    CHECK(value_of(measures, evaluation, "mse") == Approx(squares / count).epsilon(1e-5));
    CHECK(value_of(measures, evaluation, "mae") == Approx(absolutes / count).epsilon(1e-5));
    CHECK(value_of(measures, evaluation, "r2") == Approx(r2).epsilon(1e-5));
    check_sums(*loss, output, targets, 8);
    if (outputs > 1) continue;
    // A single number as the target; and networks that leave out the dimension of one.
    CHECK(loss->loss(output.flatten(), targets.flatten()).item<double>() ==
          Approx(squares / count).epsilon(1e-5));
    CHECK(loss->misfit(output.flatten(), kSamples, targets).empty());
    CHECK_FALSE(loss->misfit(at::zeros({kSamples, 2}), kSamples, targets).empty());
  }
}

TEST_CASE("R2 of targets that are all equal is 1 if they are met, else 0", "[task]") {
  const auto loss = make_task_loss({.kind = tasks::regression}, 1);
  const Measures measures{.task = tasks::regression, .outputs = 1};
  const at::Tensor targets = at::full({6, 1}, 3.0f);
  CHECK(value_of(measures, loss->evaluate(targets, targets, 6), "r2") == 1);
  CHECK(value_of(measures, loss->evaluate(targets + 1, targets, 6), "r2") == 0);
}

TEST_CASE("language model: perplexity of the tokens that count", "[task]") {
  constexpr std::size_t kTexts = 3, kLength = 4, kTokens = 5;
  const Rows logits = drawn(kTexts * kLength, kTokens, 7);
  std::vector<std::int64_t> next;
  double sum = 0, count = 0;
  for (std::size_t place = 0; place < kTexts * kLength; ++place) {
    const bool padding = place % kLength > 1 + place / kLength;
    const std::size_t token = place % kTokens;
    next.push_back(padding ? data::kIgnored : static_cast<std::int64_t>(token));
    if (padding) continue;
    sum += surprises(logits[place])[token];
    count += 1;
  }
  REQUIRE(count == 2 + 3 + 4);
  const at::Tensor output = tensor_of(logits).view({kTexts, kLength, kTokens});
  const at::Tensor targets = tensor_of(next).view({kTexts, kLength});
  const auto loss = make_task_loss({.kind = tasks::language_model}, kTokens);
  const Measures measures{.task = tasks::language_model, .outputs = kTokens};
  CHECK(loss->loss(output, targets).item<double>() == Approx(sum / count).epsilon(1e-6));
  const Evaluation evaluation = loss->evaluate(output, targets, kTexts);
  CHECK(evaluation.count == 9);
  CHECK(value_of(measures, evaluation, "perplexity") ==
        Approx(std::exp(sum / count)).epsilon(1e-6));
  check_sums(*loss, output, targets, 1);
  CHECK(loss->misfit(output, kTexts, targets).empty());
  CHECK_FALSE(loss->misfit(output.flatten(0, 1), kTexts, targets).empty());
  const auto of_tokens = [](std::int64_t tokens) {
    return at::zeros({std::int64_t{kTexts}, std::int64_t{kLength}, tokens});
  };
  CHECK(loss->misfit(of_tokens(kTokens + 1), kTexts, targets).empty());
  CHECK_FALSE(loss->misfit(of_tokens(kTokens - 1), kTexts, targets).empty());
}

TEST_CASE("a network's own loss is the mean over its batch", "[task]") {
  const auto loss = make_task_loss({.kind = tasks::module}, 1);
  const at::Tensor output = at::full({1}, 0.25f);
  CHECK(loss->loss(output, {}).dim() == 0);
  CHECK(loss->evaluate(output, {}, 8).loss_sum == 2);
  CHECK(Measures{.task = tasks::module, .outputs = 1}.of(nullptr).front().name == "loss");
  CHECK_FALSE(loss->misfit(at::zeros({2}), 2, {}).empty());
}

TEST_CASE("labels out of range are no labels", "[task]") {
  const auto check = [](const TaskOptions& options, std::int64_t label) {
    data::Array array;
    array.prepare<std::int64_t>(data::class_spec(3), 2)[0] = 0;
    array.get<std::int64_t>()[1] = label;
    make_task_loss(options, 3)->check(array);
  };
  CHECK_NOTHROW(check({}, 2));
  for (const std::int64_t label : {std::int64_t{3}, std::int64_t{-1}, data::kIgnored})
    CHECK_THROWS_AS(check({}, label), Error);
  CHECK_NOTHROW(check({.kind = tasks::language_model}, data::kIgnored));
  CHECK_THROWS_AS(check({.kind = tasks::language_model}, 3), Error);
}

TEST_CASE("a data set must have targets for the task", "[task]") {
  const data::ArraySpec classes = data::class_spec(10);
  const data::ArraySpec values{.name = "y", .shape = {3}};
  const data::ArraySpec tokens{
      .name = "next", .type = data::ElementType::int64, .shape = {-1}, .longest = 8, .bound = 50};
  CHECK(outputs_of(tasks::classification, "a set", classes, 10) == 10);
  CHECK(outputs_of(tasks::regression, "a set", values, 0) == 3);
  CHECK(outputs_of(tasks::multi_label, "a set", values, 0) == 3);
  CHECK(outputs_of(tasks::language_model, "a set", tokens, 0) == 50);
  CHECK(outputs_of(tasks::module, "a set", std::nullopt, 0) == 1);
  const auto refused = [](const TaskRow& task, const std::optional<data::ArraySpec>& target,
                          int count) {
    return test::refusal(Kind::usage, [&] { outputs_of(task, "a set", target, count); });
  };
  test::says(refused(tasks::classification, values, 0), "set task.kind to \"multi-label\" or");
  test::says(refused(tasks::regression, classes, 10), "\"classification\"");
  test::says(refused(tasks::regression, std::nullopt, 0), "no targets");
  test::says(refused(tasks::language_model, classes, 10), "the next token");
  test::says(refused(tasks::classification, data::class_spec(1), 1), "expected 2 to");
}

}  // namespace
}  // namespace eqt::model
