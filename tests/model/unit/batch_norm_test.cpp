// SPDX-License-Identifier: Apache-2.0
// The fused operation against LibTorch's separate ones in float64.

#include "model/torch/batch_norm.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "support/catch.hpp"

namespace eqt::model {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

enum class Form { plain, relu, add_relu };

struct Problem {
  explicit Problem(std::int64_t channels, std::int64_t side, double mean) {
    torch::manual_seed(3);
    x = (at::randn({5, channels, side, side}) * 2 + mean).contiguous(kChannelsLast);
    residual = at::randn({5, channels, side, side}).contiguous(kChannelsLast);
    weight = at::randn({channels});
    bias = at::randn({channels});
    g = at::randn({5, channels, side, side}).contiguous(kChannelsLast);
  }
  at::Tensor x, residual, weight, bias, g;
};

at::Tensor leaf(const at::Tensor& t, at::ScalarType type) {
  return t.detach().to(type).clone(at::MemoryFormat::Preserve).set_requires_grad(true);
}

struct Outcome {
  at::Tensor y, x, residual, weight, bias, running_mean, running_var;
};

Outcome expected(const Problem& problem, Form form) {
  const auto x = leaf(problem.x, at::kDouble), residual = leaf(problem.residual, at::kDouble);
  const auto weight = leaf(problem.weight, at::kDouble), bias = leaf(problem.bias, at::kDouble);
  const auto options = weight.options().requires_grad(false);
  const auto mean = at::zeros_like(weight, options), var = at::ones_like(weight, options);
  auto y = at::batch_norm(x, weight, bias, mean, var, true, 0.1, 1e-5, false);
  if (form == Form::add_relu) y = y + residual;
  if (form != Form::plain) y = at::relu(y);
  y.backward(problem.g.to(at::kDouble));
  return {y, x.grad(), residual.grad(), weight.grad(), bias.grad(), mean, var};
}

/// Sets the gradient to 0 for outputs so near ReLU's kink that rounding decides their side.
void avoid_kink(Problem& problem, Form form) {
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  auto y = at::batch_norm(wide(problem.x), wide(problem.weight), wide(problem.bias), {}, {}, true,
                          0.1, 1e-5, false);
  if (form == Form::add_relu) y = y + problem.residual;
  problem.g.mul_(y.abs() > 1e-3);
}

at::Tensor run(BatchNorm& norm, Form form, const at::Tensor& x, const at::Tensor& residual) {
  if (form == Form::plain) return norm->forward(x);
  return form == Form::relu ? norm->relu(x) : norm->add_relu(x, residual);
}

void set_affine(BatchNorm& norm, const Problem& problem) {
  const at::NoGradGuard no_grad;
  norm->named_parameters()["weight"].copy_(problem.weight);
  norm->named_parameters()["bias"].copy_(problem.bias);
}

Outcome computed(BatchNorm& norm, const Problem& problem, Form form) {
  const auto x = leaf(problem.x, at::kFloat), residual = leaf(problem.residual, at::kFloat);
  const auto y = run(norm, form, x, residual);
  y.backward(problem.g);
  const auto parameters = norm->named_parameters();
  const auto buffers = norm->named_buffers();
  return {y,
          x.grad(),
          residual.grad(),
          parameters["weight"].grad(),
          parameters["bias"].grad(),
          buffers["running_mean"],
          buffers["running_var"]};
}

/// Largest difference, relative to the largest value.
double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor exact = b.detach().to(at::kDouble);
  return ((a.detach().to(at::kDouble) - exact).abs().max() / (exact.abs().max() + 1e-30))
      .item<double>();
}

TEST_CASE("training mode: outputs, gradients and running statistics are batch norm's") {
  const auto channels = GENERATE(1, 3, 16, 64, 300);
  const auto side = GENERATE(1, 5, 16);
  const auto form = GENERATE(Form::plain, Form::relu, Form::add_relu);
  const auto mean = GENERATE(0.0, 100.0);
  CAPTURE(channels, side, static_cast<int>(form), mean);
  Problem problem(channels, side, mean);
  avoid_kink(problem, form);
  BatchNorm norm(channels);
  set_affine(norm, problem);
  const Outcome want = expected(problem, form), got = computed(norm, problem, form);

  // Any float32 method has the rounding of the input, relative to its spread.
  const double tolerance = mean == 0 ? 1e-5 : 1e-4;
  CHECK(distance(got.y, want.y) < tolerance);
  CHECK(distance(got.x, want.x) < 2 * tolerance);
  CHECK(distance(got.weight, want.weight) < tolerance);
  CHECK(distance(got.bias, want.bias) < tolerance);
  CHECK(distance(got.running_mean, want.running_mean) < 1e-6);
  CHECK(distance(got.running_var, want.running_var) < tolerance);
  if (form == Form::add_relu) {
    CHECK(distance(got.residual, want.residual) == 0);
    CHECK(got.residual.is_contiguous(kChannelsLast));
  }
  CHECK(got.y.is_contiguous(kChannelsLast));
  CHECK(norm->named_buffers()["num_batches_tracked"].item<std::int64_t>() == 1);
}

TEST_CASE("evaluation mode normalizes by the running statistics and does not change them") {
  const auto form = GENERATE(Form::plain, Form::relu, Form::add_relu);
  const Problem problem(16, 5, 1.0);
  BatchNorm norm(16);
  set_affine(norm, problem);
  computed(norm, problem, form);
  const auto buffers = norm->named_buffers();
  const at::Tensor mean = buffers["running_mean"].clone(), var = buffers["running_var"].clone();
  norm->eval();
  const at::NoGradGuard no_grad;
  at::Tensor want =
      at::batch_norm(problem.x, problem.weight, problem.bias, mean, var, false, 0.1, 1e-5, false);
  if (form == Form::add_relu) want = want + problem.residual;
  if (form != Form::plain) want = at::relu(want);
  CHECK(distance(run(norm, form, problem.x, problem.residual), want) < 1e-5);
  CHECK(at::equal(buffers["running_mean"], mean));
  CHECK(at::equal(buffers["running_var"], var));
  CHECK(buffers["num_batches_tracked"].item<std::int64_t>() == 1);
}

TEST_CASE("row-major inputs and gradients give the same as channels-last ones") {
  const Problem problem(16, 5, 0.0);
  BatchNorm norm(16), other(16);
  set_affine(norm, problem);
  set_affine(other, problem);
  Problem row_major = problem;
  for (at::Tensor* t : {&row_major.x, &row_major.residual, &row_major.g}) *t = t->contiguous();
  const Outcome a = computed(norm, problem, Form::add_relu);
  const Outcome b = computed(other, row_major, Form::add_relu);
  CHECK(at::equal(a.y, b.y));
  CHECK(at::equal(a.x, b.x));
  CHECK(at::equal(a.residual, b.residual));
  CHECK(at::equal(a.weight, b.weight));
}

TEST_CASE("results do not depend on the number of threads") {
  const Problem problem(16, 33, 0.0);
  const auto results = [&](int threads) {
    at::set_num_threads(threads);
    BatchNorm norm(16);
    set_affine(norm, problem);
    const Outcome outcome = computed(norm, problem, Form::add_relu);
    at::set_num_threads(1);
    return outcome;
  };
  const Outcome one = results(1), three = results(3);
  CHECK(at::equal(one.y, three.y));
  CHECK(at::equal(one.x, three.x));
  CHECK(at::equal(one.weight, three.weight));
  CHECK(at::equal(one.running_var, three.running_var));
}

}  // namespace
}  // namespace eqt::model
