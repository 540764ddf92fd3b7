// SPDX-License-Identifier: Apache-2.0
// Every layer against the closed forms in float64, and the closed forms against LibTorch's
// automatic derivatives of the plain formulas.

#include "model/torch/normalization.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/norm_oracle.hpp"
#include "support/refusal.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model {
namespace {

using test::NormInput;
using test::NormOutput;
using test::NormShape;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
std::vector<std::string> all_kinds() {
  std::vector<std::string> names;
  for (const Entry<NormalizationRow> row : NormalizationRow::all()) names.emplace_back(row->name);
  return names;
}

bool gated(const std::string& kind) { return kind.ends_with("evonorm") || kind == "evonorm-s0"; }

struct Case {
  NormShape shape;
  const char* about;
};

// Groups of a range EvoNorm: 8 channels' chunks end where channels' do, or not.
const auto kCases = {
    Case{{3, 16, 8, 8, 8}, "a chunk is an eighth of a channel"},
    Case{{1, 16, 4, 8, 8}, "one sample"},
    Case{{2, 16, 4, 4, 8}, "chunks of 2 values"},
    Case{{4, 128, 2, 4, 8}, "a chunk is a channel"},
    Case{{8, 256, 2, 2, 8}, "a chunk is two channels"},
    Case{{2, 96, 4, 4, 8}, "a chunk ends within a channel"},
    Case{{16, 128, 3, 5, 8}, "odd height and width"},
    Case{{2, 16, 40, 48, 2}, "a sample of several blocks, two groups"},
    Case{{16, 64, 12, 12, 8}, "a chunk of the batch of several blocks"},
    Case{{16, 8, 6, 6, 1}, "one group"},
    Case{{16, 12, 8, 4, 4}, "channels that fill no vector"},
    Case{{32, 64, 1, 1, 2}, "one pixel"},
};

at::Tensor draw(const NormShape& s, double mean) {
  const auto extent = [](std::size_t e) { return static_cast<std::int64_t>(e); };
  return (at::randn({extent(s.n), extent(s.c), extent(s.h), extent(s.w)}) * 2 + mean)
      .contiguous(kChannelsLast);
}

struct Problem {
  explicit Problem(const NormShape& s, double mean = 0.5) : shape(s) {
    torch::manual_seed(3);
    const auto c = static_cast<std::int64_t>(s.c);
    x = draw(s, mean);
    residual = draw(s, 0);
    g = draw(s, 0);
    weight = at::randn({c}) + 1;
    bias = at::randn({c});
    v = at::randn({c}) + 1;
  }
  NormShape shape;
  at::Tensor x, residual, g, weight, bias, v;
};

std::vector<double> numbers(const at::Tensor& t) {
  const at::Tensor d = t.detach().to(at::kDouble).contiguous();
  return {d.data_ptr<double>(), d.data_ptr<double>() + d.numel()};
}

/// Largest difference, relative to the largest value.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::fmax(difference, std::abs(a[i] - b[i]));
    largest = std::fmax(largest, std::abs(b[i]));
  }
  return difference / largest;
}

NormOutput oracle(const std::string& kind, const Problem& p, const at::Tensor& g) {
  return norm_oracle(kind, p.shape,
                     {numbers(p.x), numbers(g), numbers(p.weight), numbers(p.bias), numbers(p.v)});
}

// ------------------------------------------------------------------------ the plain formulas

at::Tensor by_channel(const at::Tensor& t) { return t.view({1, -1, 1, 1}); }

at::Tensor mean_range(const at::Tensor& values) {  // (sets, count) to (sets)
  const at::Tensor chunks = values.reshape({values.size(0), 16, -1});
  const at::Tensor range = std::get<0>(chunks.max(2)) - std::get<0>(chunks.min(2));
  const double n = static_cast<double>(chunks.size(2));
  const double factor =
      0.35 / 2 * (1 + std::sqrt(std::numbers::pi * std::log(4))) / std::sqrt(2 * std::log(n));
  return factor * range.mean(1);
}

/// (sets, count) to what the sets are multiplied by, (sets).
at::Tensor inverse_of(const std::string& kind, const at::Tensor& sets) {
  if (kind.starts_with("range-")) return 1 / (mean_range(sets) + 1e-5);
  return at::rsqrt(sets.var(1, false) + 1e-5);
}

at::Tensor formula(const std::string& kind, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias, const at::Tensor& v, std::int64_t groups) {
  at::Tensor normal;
  if (kind == "batchnorm" || kind == "range-batchnorm") {
    const at::Tensor sets = x.transpose(0, 1).reshape({x.size(1), -1});
    normal = (x - by_channel(sets.mean(1))) * by_channel(inverse_of(kind, sets));
  } else {
    const at::Tensor sets = x.contiguous().view({x.size(0) * groups, -1});
    at::Tensor u = sets - sets.mean(1, true);
    if (gated(kind)) {
      const at::Tensor z = by_channel(v) * x;
      const at::Tensor h = kind == "evonorm-s0" ? at::sigmoid(z) : at::clamp(z / 6 + 0.5, 0, 1);
      u = (x * h).contiguous().view(sets.sizes());
    }
    normal = (u * inverse_of(kind, sets).unsqueeze(1)).view(x.sizes());
  }
  return by_channel(weight) * normal + by_channel(bias);
}

at::Tensor leaf(const at::Tensor& t, at::ScalarType type) {
  return t.detach().to(type).clone(at::MemoryFormat::Preserve).set_requires_grad(true);
}

void compare_with_autograd(const std::string& kind, const Problem& p) {
  const at::Tensor x = leaf(p.x.contiguous(), at::kDouble), weight = leaf(p.weight, at::kDouble),
                   bias = leaf(p.bias, at::kDouble), v = leaf(p.v, at::kDouble);
  const auto groups = static_cast<std::int64_t>(p.shape.groups);
  const at::Tensor y = formula(kind, x, weight, bias, v, groups);
  y.backward(p.g.to(at::kDouble));
  const NormOutput want = oracle(kind, p, p.g);
  CHECK(distance(want.y, numbers(y)) < 1e-10);
  CHECK(distance(want.dx, numbers(x.grad())) < 1e-10);
  CHECK(distance(want.weight, numbers(weight.grad())) < 1e-10);
  CHECK(distance(want.bias, numbers(bias.grad())) < 1e-10);
  if (gated(kind)) CHECK(distance(want.v, numbers(v.grad())) < 1e-10);
}

TEST_CASE("closed forms are the derivatives of the plain formulas, within 1e-10 in float64") {
  const std::string kind = GENERATE(from_range(all_kinds()));
  const Case c = GENERATE(values(kCases));
  CAPTURE(kind, c.about);
  compare_with_autograd(kind, Problem(c.shape));
}

TEST_CASE("closed forms agree with automatic derivatives where extremes are tied") {
  const std::string kind = GENERATE("range-batchnorm", "range-evonorm");
  Problem p({4, 16, 8, 8, 8});
  p.x = at::round(p.x * 0.5) * 0.5;
  CAPTURE(kind);
  compare_with_autograd(kind, p);
}

// ------------------------------------------------------------------------ the layers

struct Outcome {
  at::Tensor y, x, residual, weight, bias, v;
};

enum class Form { plain, relu, add_relu };

std::shared_ptr<Normalization> layer(const std::string& kind, const Problem& p) {
  const bool grouped = kind == "groupnorm" || gated(kind);
  auto norm = make_normalization(
      {NormalizationRow::all().at(kind), grouped ? static_cast<int>(p.shape.groups) : 0},
      static_cast<std::int64_t>(p.shape.c));
  const at::NoGradGuard no_grad;
  auto parameters = norm->named_parameters();
  parameters["weight"].copy_(p.weight);
  parameters["bias"].copy_(p.bias);
  if (gated(kind)) parameters["v"].copy_(p.v);
  return norm;
}

at::Tensor apply(Normalization& norm, Form form, const at::Tensor& x, const at::Tensor& residual) {
  if (form == Form::plain) return norm.forward(x);
  return form == Form::relu ? norm.relu(x) : norm.add_relu(x, residual);
}

Outcome computed(Normalization& norm, const Problem& p, Form form) {
  const at::Tensor x = leaf(p.x, at::kFloat), residual = leaf(p.residual, at::kFloat);
  const at::Tensor y = apply(norm, form, x, residual);
  y.backward(p.g);
  const auto parameters = norm.named_parameters();
  const at::Tensor* v = parameters.find("v");
  return {y,
          x.grad(),
          residual.grad(),
          parameters["weight"].grad(),
          parameters["bias"].grad(),
          v ? v->grad() : at::Tensor()};
}

/// The gradient after ReLU, the input of the norm's backward pass; 0 if so near the kink that
/// rounding decides the side.
at::Tensor gradient_before(const std::string& kind, Problem& p, Form form) {
  if (form == Form::plain || gated(kind)) return p.g;
  at::Tensor y = at::tensor(oracle(kind, p, p.g).y, at::kDouble).view(p.x.contiguous().sizes());
  if (form == Form::add_relu) y = y + p.residual;
  p.g = (p.g * (y.abs() > 1e-3)).contiguous(kChannelsLast);
  return p.g * (y > 0);
}

TEST_CASE("outputs and gradients of every layer are the closed forms', on all instruction sets") {
  const std::string kind = GENERATE(from_range(all_kinds()));
  const Case c = GENERATE(values(kCases));
  const auto form = GENERATE(Form::plain, Form::relu, Form::add_relu);
  CAPTURE(kind, c.about, static_cast<int>(form));
  Problem p(c.shape);
  const at::Tensor before = gradient_before(kind, p, form);
  const NormOutput want = oracle(kind, p, before);
  at::Tensor y = at::tensor(want.y, at::kDouble).view(p.x.contiguous().sizes());
  if (form == Form::add_relu) y = y + p.residual;
  const auto norm = layer(kind, p);
  CHECK(norm->replaces_activation() == gated(kind));
  if (form != Form::plain && !gated(kind)) y = at::relu(y);

  test::for_each_simd_target([&] {
    const Outcome got = computed(*layer(kind, p), p, form);
    CHECK(distance(numbers(got.y), numbers(y)) < 2e-6);
    CHECK(distance(numbers(got.x), want.dx) < 5e-6);
    CHECK(distance(numbers(got.weight), want.weight) < 5e-6);
    CHECK(distance(numbers(got.bias), want.bias) < 5e-6);
    if (gated(kind)) CHECK(distance(numbers(got.v), want.v) < 5e-6);
    if (form == Form::add_relu) CHECK(at::equal(got.residual, before));
    CHECK(got.y.is_contiguous(kChannelsLast));
  });
}

TEST_CASE("layers choose among equal extremes as the closed forms do") {
  const std::string kind = GENERATE("range-batchnorm", "range-evonorm");
  const Case c = GENERATE(values(kCases));
  CAPTURE(kind, c.about);
  Problem p(c.shape);
  p.x = at::round(p.x * 0.5) * 0.5;
  const NormOutput want = oracle(kind, p, p.g);
  test::for_each_simd_target([&] {
    CHECK(distance(numbers(computed(*layer(kind, p), p, Form::plain).x), want.dx) < 5e-6);
  });
}

TEST_CASE("of equal extremes the first one has the gradient") {
  // Each chunk of 4 pixels is 1 -1 1 -1, so that its gradient through the range is at 0 and 1.
  Problem p({1, 1, 8, 8, 1});
  p.x = at::tensor({1.0f, -1.0f}).repeat({32}).view({1, 1, 8, 8});
  const std::string kind = GENERATE("range-batchnorm", "range-evonorm");
  p.g = at::zeros_like(p.x);
  p.g.view(-1)[2] = 1.0f;
  const std::vector<double> dx = numbers(computed(*layer(kind, p), p, Form::plain).x);
  CAPTURE(kind);
  for (std::size_t i = 4; i < 64; i += 4) {
    CHECK(dx[i] != dx[i + 2]);
    CHECK(dx[i + 2] == dx[i + 3]);
    CHECK(dx[i] + dx[i + 1] == Approx(2 * dx[i + 2]).margin(1e-6));
  }
}

TEST_CASE("a mean far from zero loses no more digits than the input has lost") {
  const std::string kind = GENERATE(from_range(all_kinds()));
  CAPTURE(kind);
  const Problem p({4, 16, 8, 8, 8}, 100.0);
  const NormOutput want = oracle(kind, p, p.g);
  const Outcome got = computed(*layer(kind, p), p, Form::plain);
  CHECK(distance(numbers(got.y), want.y) < 1e-4);
  CHECK(distance(numbers(got.x), want.dx) < 2e-4);
}

TEST_CASE("results do not depend on threads or on the layout of the input") {
  const std::string kind = GENERATE(from_range(all_kinds()));
  CAPTURE(kind);
  const Problem p({6, 16, 40, 32, 8});
  const auto results = [&](int threads, const Problem& problem) {
    at::set_num_threads(threads);
    const Outcome outcome = computed(*layer(kind, p), problem, Form::add_relu);
    at::set_num_threads(1);
    return outcome;
  };
  Problem row_major = p;
  for (at::Tensor* t : {&row_major.x, &row_major.residual, &row_major.g}) *t = t->contiguous();
  const Outcome one = results(1, p);
  for (const Outcome& other : {results(3, p), results(1, row_major)}) {
    CHECK(at::equal(one.y, other.y));
    CHECK(at::equal(one.x, other.x));
    CHECK(at::equal(one.residual, other.residual));
    CHECK(at::equal(one.weight, other.weight));
    CHECK(at::equal(one.bias, other.bias));
  }
}

TEST_CASE(
    "layers by group give a sample the same output in every batch, in training and evaluation") {
  const std::string kind = GENERATE("groupnorm", "evonorm-s0", "range-evonorm");
  CAPTURE(kind);
  const Problem p({5, 16, 8, 8, 8});
  const auto norm = layer(kind, p);
  const at::NoGradGuard no_grad;
  const at::Tensor all = norm->forward(p.x);
  CHECK(at::equal(norm->forward(p.x.narrow(0, 3, 1)), all.narrow(0, 3, 1)));
  norm->eval();
  CHECK(at::equal(norm->forward(p.x), all));
  CHECK(norm->named_buffers().is_empty());
}

TEST_CASE("range batch norm's running values are a tenth old, nine tenths new") {
  const Problem p({4, 16, 8, 8, 8});
  const auto norm = layer("range-batchnorm", p);
  const NormOutput want = oracle("range-batchnorm", p, p.g);
  computed(*norm, p, Form::plain);
  computed(*norm, p, Form::plain);
  const auto buffers = norm->named_buffers();
  std::vector<double> mean = want.mean, inverse = want.inverse;
  for (double& m : mean) m *= 0.99;               // from 0
  for (double& i : inverse) i = 0.01 + 0.99 * i;  // from 1
  CHECK(distance(numbers(buffers["running_mean"]), mean) < 1e-6);
  CHECK(distance(numbers(buffers["running_inverse"]), inverse) < 1e-6);

  norm->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor x = p.x.slice(0, 0, 3).slice(2, 0, 7);  // not divisible by 16
  const at::Tensor y = norm->forward(x);
  const at::Tensor expected = by_channel(p.weight) * (x - by_channel(buffers["running_mean"])) *
                                  by_channel(buffers["running_inverse"]) +
                              by_channel(p.bias);
  CHECK(distance(numbers(y), numbers(expected)) < 1e-6);
  CHECK(distance(numbers(buffers["running_mean"]), mean) < 1e-6);
}

TEST_CASE("NaN stays visible") {
  const std::string kind = GENERATE(from_range(all_kinds()));
  CAPTURE(kind);
  Problem p({2, 16, 8, 8, 8});
  p.x[1][3][2][2] = std::numeric_limits<float>::quiet_NaN();
  test::for_each_simd_target([&] {
    const Outcome got = computed(*layer(kind, p), p, Form::relu);
    CHECK(std::isnan(got.y[1][3][2][2].item<float>()));
    CHECK(std::isnan(got.x[1][3][2][2].item<float>()));
    CHECK(std::isnan(got.weight[3].item<float>()));
  });
}

TEST_CASE("the exact sigmoid is correct over the whole range") {
  // With weight 1 and a known scale, y / x is the sigmoid.
  const at::Tensor z = at::linspace(-100, 100, 16 * 4096).view({1, 16, 64, 64});
  NormShape shape{1, 16, 64, 64, 1};
  Problem p(shape);
  p.x = z.contiguous(kChannelsLast);
  p.weight = p.v = at::ones({16});
  p.bias = at::zeros({16});
  const NormOutput want = oracle("evonorm-s0", p, p.g);
  test::for_each_simd_target([&] {
    const std::vector<double> y = numbers(layer("evonorm-s0", p)->forward(p.x));
    double worst = 0;  // relative to the kernels' bound plus the layer's rounding
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double x = -100 + 200 * static_cast<double>(i) / static_cast<double>(y.size() - 1);
      const double bound = (1.2e-6 + 1e-7 * std::abs(x)) * std::abs(want.y[i]) + 1e-30;
      worst = std::fmax(worst, std::abs(y[i] - want.y[i]) / bound);
    }
    CHECK(worst < 1);
  });
}

std::string message(const NormalizationOptions& options, std::int64_t channels) {
  return test::refusal(Kind::usage, [&] { make_normalization(options, channels); });
}

TEST_CASE("input that a layer cannot normalize is a usage error with advice") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(message({normalizations::evonorm_s0, 0}, 12),
             ContainsSubstring("8 groups of 12 channels"));
  CHECK_THAT(message({normalizations::groupnorm, 5}, 16), ContainsSubstring("model.norm_groups"));
  CHECK_THAT(message({normalizations::batchnorm, 4}, 16), ContainsSubstring("model.norm_groups"));
  CHECK_NOTHROW(make_normalization({normalizations::groupnorm, 16}, 16));

  const std::string kind = GENERATE("range-batchnorm", "range-evonorm");
  const auto norm = make_normalization({NormalizationRow::all().at(kind), 0}, 16);
  norm->set_path("layer2.0.bn1");
  const auto side = GENERATE(1, 3);  // 1, 9 pixels: too few, no multiple
  CHECK_THAT(test::refusal(Kind::usage,
                           [&] {
                             norm->forward(at::randn({1, 16, side, side}));
                           }),
             ContainsSubstring("layer2.0.bn1") && ContainsSubstring("model.normalization"));
}

}  // namespace
}  // namespace eqt::model
