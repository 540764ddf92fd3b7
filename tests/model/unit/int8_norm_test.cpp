// SPDX-License-Identifier: Apache-2.0
// Normalization of 8-bit values against the closed forms in float64, and the same bytes on every
// instruction set.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "model/own/norm.hpp"
#include "support/catch.hpp"
#include "support/norm_oracle.hpp"
#include "support/refusal.hpp"
#include "support/simd_targets.hpp"

namespace eqt::model::precision {
namespace {

using test::NormInput;
using test::NormOutput;
using test::NormShape;

struct Case {
  std::string kind;
  NormShape shape;
};

Plan plan_of(const Case& c) {
  Plan plan;
  plan.groups = c.shape.groups;
  plan.ranges = c.kind.starts_with("range-");
  if (c.kind == "evonorm-s0" || c.kind == "range-evonorm") plan.norm_activates = true;
  return plan;
}

Branch branch_of(const NormShape& s) {
  return {.name = "conv",
          .shape = {.height = static_cast<int>(s.h),
                    .width = static_cast<int>(s.w),
                    .in_channels = 4,
                    .out_channels = static_cast<int>(s.c)},
          .norm = 0};
}

/// 8-bit images and errors (n, h, w, c), a scale for each sample, and parameters.
struct Problem {
  NormShape shape;
  std::vector<std::int8_t> x, g;
  std::vector<float> x_scales, g_scales, weight, bias, v, factors;

  explicit Problem(const NormShape& s) : shape(s) {
    const RandomStream random({.run_seed = 7});
    std::uint32_t i = 0;
    const auto integer = [&] {
      return static_cast<std::int8_t>(std::lround(random.uniform(i++) * 254 - 127));
    };
    const auto between = [&](double low, double high) {
      return static_cast<float>(low + (high - low) * random.uniform(i++));
    };
    for (std::size_t k = 0; k < s.count(); ++k) {
      x.push_back(integer());
      g.push_back(integer());
    }
    for (std::size_t n = 0; n < s.n; ++n) {
      x_scales.push_back(between(0.01, 0.06));
      g_scales.push_back(between(1e-5, 1e-4));
    }
    for (std::size_t c = 0; c < s.c; ++c) {
      weight.push_back(between(0.5, 2));
      bias.push_back(between(-1, 1));
      v.push_back(between(-2, 2));
      factors.push_back(between(1e-3, 1e-2));
    }
  }

  std::size_t count() const { return shape.pixels() * shape.c; }
  SampleValues<std::int8_t> sample(const std::vector<std::int8_t>& of,
                                   const std::vector<float>& scales, std::size_t n) const {
    return {std::span(of).subspan(n * count(), count()), scales[n]};
  }
};

struct Result {
  std::vector<float> y, error;  // (n, h, w, c); the error divided by the factors
  std::vector<float> weight, bias, v, running;
  bool operator==(const Result&) const = default;
};

Result run(const Case& c, const Problem& p, Pass pass = Pass::training,
           std::vector<float> running = {}) {
  const NormShape& s = p.shape;
  const auto norm = make_norm<std::int8_t>(plan_of(c), branch_of(s));
  Result r{.y = std::vector<float>(s.count()),
           .error = std::vector<float>(s.count()),
           .weight = std::vector<float>(s.c),
           .bias = std::vector<float>(s.c),
           .v = std::vector<float>(s.c),
           .running = std::move(running)};
  r.running.resize(2 * s.c);
  norm->start(s.n, pass, {.weight = p.weight, .bias = p.bias, .v = p.v}, r.running);
  std::vector<float> floats(p.count());
  for (std::size_t n = 0; n < s.n; ++n) {
    const SampleValues<std::int8_t> x = p.sample(p.x, p.x_scales, n);
    for (std::size_t i = 0; i < floats.size(); ++i)
      floats[i] = static_cast<float>(x.values[i]) * x.scale;
    norm->measure(floats, n);
  }
  norm->finish();
  const auto part = [&](std::vector<float>& of, std::size_t n) {
    return std::span(of).subspan(n * p.count(), p.count());
  };
  for (std::size_t n = 0; n < s.n; ++n)
    norm->apply(p.sample(p.x, p.x_scales, n), n, Output::plain, part(r.y, n));
  if (pass == Pass::evaluation) return r;
  norm->start_backward();
  for (std::size_t n = 0; n < s.n; ++n)
    norm->sum_error(p.sample(p.g, p.g_scales, n), p.sample(p.x, p.x_scales, n), n);
  norm->finish_backward({.weight = r.weight, .bias = r.bias, .v = r.v});
  for (std::size_t n = 0; n < s.n; ++n) {
    const auto error = part(r.error, n);
    norm->error(p.sample(p.g, p.g_scales, n), p.sample(p.x, p.x_scales, n), n, p.factors, error);
    for (std::size_t i = 0; i < error.size(); ++i) error[i] /= p.factors[i % s.c];
  }
  return r;
}

/// The place of (n, c, h, w)'s element i in (n, h, w, c).
std::size_t channels_last(const NormShape& s, std::size_t i) {
  const std::size_t n = i / (s.c * s.pixels()), pixel = i % s.pixels();
  return (n * s.pixels() + pixel) * s.c + s.channel_of(i);
}

NormOutput oracle(const Case& c, const Problem& p) {
  NormInput in;
  for (std::size_t i = 0; i < p.shape.count(); ++i) {
    const std::size_t at = channels_last(p.shape, i), n = at / p.count();
    // The floats that measure() is given: products that are rounded once.
    in.x.push_back(static_cast<float>(p.x[at]) * p.x_scales[n]);
    in.g.push_back(static_cast<double>(p.g[at]) * p.g_scales[n]);
  }
  in.weight.assign(p.weight.begin(), p.weight.end());
  in.bias.assign(p.bias.begin(), p.bias.end());
  in.v.assign(p.v.begin(), p.v.end());
  return test::norm_oracle(c.kind, p.shape, in);
}

/// Largest difference, relative to the largest value. @param at  place of wanted's element i
template <typename Place>
double distance(const std::vector<float>& found, const std::vector<double>& wanted,
                const Place& at) {
  double difference = 0, largest = 1e-30;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference = std::fmax(difference, std::abs(found[at(i)] - wanted[i]));
    largest = std::fmax(largest, std::abs(wanted[i]));
  }
  return difference / largest;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const NormShape& s :
       {NormShape{3, 16, 8, 8}, NormShape{16, 24, 4, 4}, NormShape{4, 8, 40, 48},
        NormShape{32, 64, 1, 1}, NormShape{16, 12, 3, 5}}) {
    all.push_back({"batchnorm", s});
    if (s.n * s.pixels() % 16 == 0) all.push_back({"range-batchnorm", s});
  }
  for (const NormShape& s : {NormShape{3, 16, 8, 8, 2}, NormShape{2, 16, 40, 48, 2},
                             NormShape{4, 12, 5, 3, 4}, NormShape{1, 16, 4, 8, 8}}) {
    all.push_back({"groupnorm", s});
    all.push_back({"evonorm-s0", s});
  }
  for (const NormShape& s :
       {NormShape{3, 16, 8, 8, 8}, NormShape{2, 16, 4, 4, 8}, NormShape{4, 128, 2, 4, 8},
        NormShape{8, 256, 2, 2, 8}, NormShape{2, 96, 4, 4, 8}, NormShape{2, 16, 40, 48, 2}})
    all.push_back({"range-evonorm", s});
  return all;
}

TEST_CASE("normalization of 8-bit values, forward and backward, is the one in float64") {
  for (const Case& c : cases()) {
    CAPTURE(c.kind, c.shape.n, c.shape.c, c.shape.h, c.shape.w, c.shape.groups);
    const Problem p(c.shape);
    const Result found = run(c, p);
    const NormOutput wanted = oracle(c, p);
    const auto pixel = [&](std::size_t i) { return channels_last(c.shape, i); };
    const auto channel = [](std::size_t i) { return i; };
    CHECK(distance(found.y, wanted.y, pixel) < 2e-6);
    CHECK(distance(found.error, wanted.dx, pixel) < 4e-6);
    CHECK(distance(found.weight, wanted.weight, channel) < 2e-6);
    CHECK(distance(found.bias, wanted.bias, channel) < 1e-6);
    CHECK(distance(found.v, wanted.v, channel) < 4e-6);
  }
}

/// The bits of the largest magnitude, NaN above infinity.
std::uint32_t largest_bits(const std::vector<float>& x) {
  std::uint32_t most = 0;
  for (const float value : x) most = std::max(most, std::bit_cast<std::uint32_t>(std::abs(value)));
  return most;
}

TEST_CASE("ranges that are known without floats are those of the floats, bit for bit") {
  std::vector<Case> some = cases();
  for (const std::size_t channels : {1u, 3u, 70u, 150u, 300u, 1030u})
    some.push_back({"batchnorm", {2, channels, 3, 7}});
  for (const Case& c : some) {
    CAPTURE(c.kind, c.shape.n, c.shape.c, c.shape.h, c.shape.w);
    const Problem p(c.shape);
    test::for_each_simd_target([&] {
      const auto norm = make_norm<std::int8_t>(plan_of(c), branch_of(c.shape));
      std::vector<float> running(2 * c.shape.c), floats(p.count());
      norm->start(c.shape.n, Pass::training, {.weight = p.weight, .bias = p.bias, .v = p.v},
                  running);
      for (std::size_t n = 0; n < c.shape.n; ++n) {
        const auto x = p.sample(p.x, p.x_scales, n);
        for (std::size_t i = 0; i < floats.size(); ++i)
          floats[i] = static_cast<float>(x.values[i]) * x.scale;
        norm->measure(floats, n);
      }
      norm->finish();
      std::vector<float> weight(c.shape.c), bias(c.shape.c), v(c.shape.c);
      norm->start_backward();
      for (std::size_t n = 0; n < c.shape.n; ++n)
        norm->sum_error(p.sample(p.g, p.g_scales, n), p.sample(p.x, p.x_scales, n), n);
      norm->finish_backward({.weight = weight, .bias = bias, .v = v});
      const bool of_channels = c.kind == "batchnorm" || c.kind == "range-batchnorm";
      for (std::size_t n = 0; n < c.shape.n; ++n) {
        const auto x = p.sample(p.x, p.x_scales, n), g = p.sample(p.g, p.g_scales, n);
        for (const Output output : {Output::plain, Output::rectified, Output::clipped}) {
          const auto found = norm->largest(x, n, output);
          REQUIRE(found.has_value() == of_channels);
          if (!found) break;
          norm->apply(x, n, output, floats);
          CHECK(std::bit_cast<std::uint32_t>(*found) == largest_bits(floats));
        }
        if (!norm->is_pixelwise()) continue;
        const auto found = norm->largest_error(g, x, n, p.factors);
        CHECK(found.has_value() == of_channels);
        norm->error(g, x, n, p.factors, floats);
        if (found) CHECK(std::bit_cast<std::uint32_t>(*found) == largest_bits(floats));
      }
    });
  }
}

TEST_CASE("a channel that is not finite makes the known range so") {
  Problem p({2, 24, 4, 5});
  test::for_each_simd_target([&] {
    std::vector<float> scale(24, 1), slope(24, 1), offset(24, 1);
    offset[23] = std::numeric_limits<float>::infinity();
    const auto x = p.sample(p.x, p.x_scales, 0), g = p.sample(p.g, p.g_scales, 0);
    CHECK(std::isinf(largest_norm_error(g.values, x.values, scale, slope, offset)));
    slope[2] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(largest_norm_error(g.values, x.values, scale, slope, offset)));
  });
}

TEST_CASE("sums of errors are exact where all values are at their ends") {
  constexpr std::size_t kChannels = 20, kPixels = 66001;
  const auto sign = GENERATE(1, -1);
  const std::vector<std::int8_t> g(kChannels * kPixels, static_cast<std::int8_t>(127 * sign));
  const std::vector<std::int8_t> x(g.size(), 127);
  test::for_each_simd_target([&] {
    std::vector<std::int64_t> sums(kChannels), products(kChannels);
    error_sums(g, x, sums, products);
    CHECK(sums == std::vector<std::int64_t>(kChannels, 127 * sign * 66001L));
    CHECK(products == std::vector<std::int64_t>(kChannels, 127 * 127 * sign * 66001L));
  });
}

TEST_CASE("normalization of 8-bit values has the same bytes on every instruction set") {
  for (const Case& c : cases()) {
    CAPTURE(c.kind, c.shape.c);
    const Problem p(c.shape);
    const Result wanted = run(c, p);
    test::for_each_simd_target([&] { CHECK(run(c, p) == wanted); });
  }
}

TEST_CASE("running values are those of the batch, a tenth or nine tenths new, and are used") {
  const auto [kind, share] =
      GENERATE(table<std::string, double>({{"batchnorm", 0.1}, {"range-batchnorm", 0.9}}));
  const Case c{kind, {4, 16, 8, 8}};
  const Problem p(c.shape);
  const std::vector<float> before(2 * c.shape.c, 2.0f);
  const Result trained = run(c, p, Pass::training, before);
  const NormOutput wanted = oracle(c, p);
  const double rows = static_cast<double>(c.shape.n * c.shape.pixels());
  for (std::size_t i = 0; i < c.shape.c; ++i) {
    CHECK(trained.running[i] == Approx(2 * (1 - share) + share * wanted.mean[i]).epsilon(1e-6));
    const double inverse = wanted.inverse[i];
    const double second =
        kind == "batchnorm" ? (1 / (inverse * inverse) - 1e-5) * rows / (rows - 1) : inverse;
    CHECK(trained.running[c.shape.c + i] == Approx(2 * (1 - share) + share * second).epsilon(1e-5));
  }
  const Result evaluated = run(c, p, Pass::evaluation, before);
  CHECK(evaluated.running == before);
  const double factor = kind == "batchnorm" ? 1 / std::sqrt(2 + 1e-5) : 2;
  for (std::size_t i = 0; i < evaluated.y.size(); ++i) {
    const std::size_t ch = i % c.shape.c;
    const double x = static_cast<double>(p.x[i]) * p.x_scales[i / p.count()];
    CHECK(evaluated.y[i] == Approx((x - 2) * factor * p.weight[ch] + p.bias[ch]).margin(2e-5));
  }
}

TEST_CASE("what cannot be cut into groups or chunks is refused with the layer's name") {
  const auto sentence = [](const Case& c) {
    return test::refusal(Kind::usage, [&] { run(c, Problem(c.shape)); });
  };
  test::says(sentence({"groupnorm", {2, 10, 4, 4, 4}}), "conv: expected groups that divide");
  test::says(sentence({"range-evonorm", {2, 16, 3, 3, 8}}), "conv: expected a multiple of 16");
  test::says(sentence({"range-batchnorm", {3, 16, 3, 3}}), "conv: expected a multiple of 16");
}

}  // namespace
}  // namespace eqt::model::precision
