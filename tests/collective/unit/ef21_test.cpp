// SPDX-License-Identifier: Apache-2.0
// EF21 and EF21-SGDM on one rank and on a few, without sending.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/catalogue.hpp"
#include "collective/memory.hpp"
#include "support/catch.hpp"
#include "support/check_close.hpp"
#include "support/gaussian.hpp"
#include "support/own_message.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::collective;
using test::check_close;
using test::OwnMessage;

namespace {

/// g_m: what all know of the rank's gradient.
std::vector<float> estimate_of(const GradientMemory& memory) {
  std::vector<float> estimate;
  for (const float negated : memory.negated_estimate()) estimate.push_back(-negated);
  return estimate;
}

double square(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

double square_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

using MakeMemory = std::function<std::unique_ptr<GradientMemory>()>;

/// Ranks that average by allgather, in one process.
class Ranks {
 public:
  Ranks(const codec::Compressor& compressor, std::size_t ranks, std::size_t count,
        const MakeMemory& make_memory)
      : count_(count) {
    for (std::size_t r = 0; r < ranks; ++r) {
      messages_.push_back(std::make_unique<OwnMessage>(compressor, count));
      memories_.push_back(make_memory == nullptr ? nullptr : make_memory());
    }
  }

  /// What the step applies. @param gradient of a rank
  std::vector<float> step(const std::function<std::vector<float>(std::size_t rank)>& gradient) {
    std::vector<float> mean(count_);
    for (std::size_t r = 0; r < messages_.size(); ++r) {
      std::vector<float> values = gradient(r);
      GradientMemory* const memory = memories_[r].get();
      if (memory != nullptr) memory->begin();
      if (memory != nullptr) memory->compensate(messages_[r]->bucket(), values);
      const Contribution sent = messages_[r]->encode(values, step_);
      const std::vector<float> decoded = messages_[r]->decode(sent, count_);
      for (std::size_t i = 0; i < count_; ++i)
        mean[i] += decoded[i] / static_cast<float>(messages_.size());
      if (memory != nullptr) memory->remember(messages_[r]->bucket(), sent);
    }
    if (memories_[0] != nullptr) memories_[0]->complete(messages_[0]->bucket(), mean);
    ++step_;
    return mean;
  }

 private:
  const std::size_t count_;
  std::vector<std::unique_ptr<OwnMessage>> messages_;
  std::vector<std::unique_ptr<GradientMemory>> memories_;
  StepId step_ = 0;
};

MakeMemory ef14(std::size_t count) {
  return [count] { return make_error_feedback(count); };
}
MakeMemory ef21(std::size_t count, float momentum = 1) {
  return [count, momentum] { return make_ef21(count, momentum); };
}

const std::vector<std::vector<float>> kGradients = {
    {0.3f, -1.0f, 0.2f, 0.5f}, {0.4f, 0.1f, -0.6f, 0.5f}, {-0.2f, 0.3f, -0.5f, 0.1f}};

struct Trace {
  std::vector<std::vector<double>> encoded;  // the compressor's input
  std::vector<std::vector<double>> applied;
};

/// One rank, top-1.
void check_trace(const MakeMemory& make_memory, const Trace& trace) {
  const auto top1 = codec::make_compressor("topk", {.density = 0.25});
  OwnMessage message(*top1, 4);
  const auto memory = make_memory();
  for (std::size_t step = 0; step < 3; ++step) {
    INFO("step " << step);
    auto values = kGradients[step];
    memory->begin();
    memory->compensate(message.bucket(), values);
    check_close(values, trace.encoded[step]);
    const Contribution sent = message.encode(values, step);
    auto mean = message.decode(sent, 4);
    memory->remember(message.bucket(), sent);
    memory->complete(message.bucket(), mean);
    check_close(mean, trace.applied[step]);
  }
}

}  // namespace

// By hand, for the gradients above; what top-1 sends is marked.
//
//   EF14: p = g + e, e = p - top1(p)      EF21: d = g - h, h += top1(d), h is applied
//   1  p  0.3 [-1.0]  0.2   0.5           d   0.3 [-1.0]  0.2  0.5
//      e  0.3   0     0.2   0.5           h   0    -1.0   0    0
//   2  p  0.7   0.1  -0.4  [1.0]          d   0.4  [1.1] -0.6  0.5    1.1 = 0.1 + 1.0
//      e  0.7   0.1  -0.4   0             h   0     0.1   0    0
//   3  p  0.5   0.4 [-0.9]  0.1           d  -0.2   0.2 [-0.5] 0.1    0.2 = 0.3 - 0.1
//      e  0.5   0.4   0     0.1           h   0     0.1  -0.5  0
//
//   EF21-SGDM, eta = 1/2: v = g in step 1, then (v + g) / 2; d = v - h
//   1  v  0.3   -1.0    0.2    0.5        d  0.3   [-1.0]   0.2   0.5    h  0  -1.0    0  0
//   2  v  0.35  -0.45  -0.2    0.5        d  0.35   [0.55] -0.2   0.5    h  0  -0.45   0  0
//   3  v  0.075 -0.075 -0.35   0.3        d  0.075  [0.375] -0.35 0.3    h  0  -0.075  0  0
TEST_CASE("EF14 and EF21 with top-1 follow their three-step traces", "[memory]") {
  check_trace(ef14(4),
              {.encoded = {{0.3, -1.0, 0.2, 0.5}, {0.7, 0.1, -0.4, 1}, {0.5, 0.4, -0.9, 0.1}},
               .applied = {{0, -1, 0, 0}, {0, 0, 0, 1}, {0, 0, -0.9, 0}}});
  check_trace(ef21(4),
              {.encoded = {{0.3, -1.0, 0.2, 0.5}, {0.4, 1.1, -0.6, 0.5}, {-0.2, 0.2, -0.5, 0.1}},
               .applied = {{0, -1, 0, 0}, {0, 0.1, 0, 0}, {0, 0.1, -0.5, 0}}});
  check_trace(
      ef21(4, 0.5f),
      {.encoded = {{0.3, -1.0, 0.2, 0.5}, {0.35, 0.55, -0.2, 0.5}, {0.075, 0.375, -0.35, 0.3}},
       .applied = {{0, -1, 0, 0}, {0, -0.45, 0, 0}, {0, -0.075, 0, 0}}});
}

TEST_CASE("EF21's estimate contracts to a fixed gradient, with every contraction", "[memory]") {
  constexpr std::size_t kCount = 4099;
  std::size_t contractions = 0;
  for (const Entry<codec::CompressorRow> row : codec::CompressorRow::all()) {
    codec::CompressorOptions options;
    if (row->choose_defaults != nullptr) row->choose_defaults(options);
    const auto compressor = codec::make_compressor(*row, options);
    const codec::Properties properties = compressor->properties();
    const auto bound = compressor->variance_bound(kCount);
    if (properties.lossless || properties.votes || properties.forgets_sent || !bound || *bound >= 1)
      continue;
    ++contractions;
    INFO(row->name << ", 1 - alpha = " << *bound);
    // Rounding: of v, g and their difference, and below the smallest normal value of fp16.
    const double rounding = kCount * (0x1p-50 + 16 * 0x1p-46);
    const int runs = properties.random ? 40 : 1;
    std::vector<double> kept;  // |v - g|^2 after a step relative to before
    for (int run = 0; run < runs; ++run) {
      OwnMessage message(*compressor, kCount);
      const auto memory = make_ef21(kCount, 1);
      const auto gradient =
          test::gaussian(kCount, {.run_seed = 5, .step = 1000 + static_cast<StepId>(run)});
      double before = square(gradient);
      for (StepId step = 0; step < 6 && before > 1000 * rounding; ++step) {
        auto values = gradient;
        memory->begin();
        memory->compensate(message.bucket(), values);
        memory->remember(message.bucket(),
                         message.encode(values, step, static_cast<std::uint64_t>(run)));
        const double after = square_distance(estimate_of(*memory), gradient);
        kept.push_back(after / before);
        if (!properties.random) CHECK(after <= *bound * before + rounding);
        before = after;
      }
    }
    // The bound is one of the expectation: five standard errors.
    double mean = 0, deviation = 0;
    const auto n = static_cast<double>(kept.size());
    for (const double k : kept) mean += k / n;
    for (const double k : kept) deviation += (k - mean) * (k - mean) / n;
    CHECK(mean <= *bound + 5 * std::sqrt(deviation / n) + 1e-3);
  }
  CHECK(contractions >= 14);
}

TEST_CASE("the mean that EF21 applies is that of all estimates", "[memory]") {
  constexpr std::size_t kCount = 1009, kRanks = 3;
  for (const std::string name : {"topk", "elastiquant", "ef-signsgd"}) {
    INFO(name);
    const auto compressor = codec::make_compressor(name);
    std::vector<GradientMemory*> memories;
    Ranks ranks(*compressor, kRanks, kCount, [&] {
      auto memory = make_ef21(kCount, 0.3f);
      memories.push_back(memory.get());
      return memory;
    });
    std::vector<float> applied;
    for (StepId step = 0; step < 200; ++step) {
      applied = ranks.step([&](std::size_t rank) {
        return test::gaussian(
            kCount, {.run_seed = 6, .step = step, .rank = static_cast<std::uint32_t>(rank)});
      });
    }
    std::vector<double> mean(kCount);
    for (const GradientMemory* memory : memories)
      for (std::size_t i = 0; i < kCount; ++i)
        mean[i] -= static_cast<double>(memory->negated_estimate()[i]) / kRanks;
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      worst = std::max(worst, std::abs(mean[i] - static_cast<double>(applied[i])));
    CHECK(worst < 200 * 2 * 6e-8);  // additions of float32 below 2
  }
}

namespace {

/// Another number of ranks goes on: it gets what was the same on all, and the mean of two others.
/// What begins anew stays.
class Conversion final : public test::StateSource {
 public:
  explicit Conversion(const std::map<std::string, std::vector<float>, std::less<>>& saved)
      : saved_(saved) {}
  void values(std::string_view name, std::span<float> values, Across across) override {
    if (across == Across::fresh) return;
    std::ranges::copy(saved_.find(name)->second, values.begin());
  }
  bool converts() const noexcept override { return true; }

 private:
  const std::map<std::string, std::vector<float>, std::less<>>& saved_;
};

}  // namespace

TEST_CASE("other ranks begin with the mean that EF21 applies, also when an estimate is lost",
          "[memory]") {
  // Of three ranks' estimates (1, 0), (0, 1) and (5, 5) the last is lost: g is their mean (2, 2).
  const std::map<std::string, std::vector<float>, std::less<>> saved = {
      {"negated estimate", {-0.5f, -0.5f}}, {"mean estimate", {2, 2}}};
  const auto exact = codec::make_compressor("none");
  std::vector<GradientMemory*> memories;
  Ranks ranks(*exact, 2, 2, [&] {
    auto memory = make_ef21(2, 1);
    Conversion conversion(saved);
    memory->visit_state(conversion);
    memories.push_back(memory.get());
    return memory;
  });
  for (const GradientMemory* const memory : memories)
    CHECK(estimate_of(*memory) == std::vector<float>{2, 2});
  // Without compression the step applies the mean gradient, and nothing of the lost rank's.
  const std::vector<float> applied = ranks.step([](std::size_t rank) {
    return rank == 0 ? std::vector<float>{1, 0} : std::vector<float>{0, 1};
  });
  CHECK(applied == std::vector<float>{0.5f, 0.5f});
}

TEST_CASE("EF21 sends what raw segments have, and remembers nothing of it", "[memory]") {
  FusionBucket bucket;
  bucket.end = 6;
  bucket.segments = {{.slice = 0, .begin = 0, .count = 4, .compressed = true},
                     {.slice = 1, .begin = 4, .count = 2, .compressed = false}};
  const auto memory = make_ef21(6, 1);
  for (const float value : {3.0f, 5.0f}) {
    std::vector<float> values(6, value);
    memory->begin();
    memory->compensate(bucket, values);
    CHECK(values[4] == value);
    memory->remember(bucket, {});  // everything was exact
    CHECK(estimate_of(*memory) == std::vector<float>{value, value, value, value, 0, 0});
    memory->complete(bucket, values);
    CHECK(values == std::vector<float>(6, value));
  }
}

TEST_CASE("after a gradient that is not finite EF21 goes on from restored state", "[memory]") {
  const auto top1 = codec::make_compressor("topk", {.density = 0.25});
  for (const float momentum : {1.0f, 0.5f}) {
    OwnMessage message(*top1, 4);
    const auto memory = make_ef21(4, momentum);
    const auto compensated = [&](std::vector<float> values) {
      memory->begin();
      memory->compensate(message.bucket(), values);
      return values;
    };
    (void)compensated(kGradients[0]);
    test::StateSpans spans;
    memory->visit_state(spans);
    std::vector<std::vector<float>> saved;
    for (const auto part : spans.floats) saved.emplace_back(part.begin(), part.end());
    const auto expected = compensated(kGradients[1]);
    (void)compensated(std::vector<float>(4, std::numeric_limits<float>::quiet_NaN()));
    for (std::size_t i = 0; i < saved.size(); ++i)
      std::ranges::copy(saved[i], spans.floats[i].begin());
    CHECK(compensated(kGradients[1]) == expected);
  }
}

namespace {

using Point = std::array<double, 3>;

/// Three ranks' quadratics (a_m x)^2 + |x|^2 / 4 + b_m x, where the b_m add up to 0: their mean is
/// least in 0, where no rank's gradient is 0. a_m from Beznosikov et al. 2020 (arXiv:2002.12410,
/// example 1), whose top-1 without feedback makes x grow in every step from a multiple of (1, 1,
/// 1). L = 2/3 25 + 1/2, largest L_m = 2 17 + 1/2.
constexpr std::array<Point, 3> kRows = {Point{-3, 2, 2}, Point{2, -3, 2}, Point{2, 2, -3}};
constexpr std::array<Point, 3> kSlopes = {Point{1, -2, 1}, Point{1, 1, -2}, Point{-2, 1, 1}};

std::vector<float> gradient_of(std::size_t rank, const Point& x, double slope) {
  double along = 0;
  for (std::size_t i = 0; i < 3; ++i) along += kRows[rank][i] * x[i];
  std::vector<float> gradient;
  for (std::size_t i = 0; i < 3; ++i)
    gradient.push_back(
        static_cast<float>(2 * along * kRows[rank][i] + x[i] / 2 + slope * kSlopes[rank][i]));
  return gradient;
}

/// |x| after gradient descent from (1, 1, 1) by top-1.
double distance_after(int steps, double rate, double slope, const MakeMemory& make_memory) {
  const auto top1 = codec::make_compressor("topk", {.density = 0.34});
  Ranks ranks(*top1, 3, 3, make_memory);
  Point x = {1, 1, 1};
  for (int s = 0; s < steps; ++s) {
    const auto applied = ranks.step([&](std::size_t rank) { return gradient_of(rank, x, slope); });
    for (std::size_t i = 0; i < 3; ++i) x[i] -= rate * static_cast<double>(applied[i]);
  }
  return std::hypot(x[0], x[1], x[2]);
}

}  // namespace

TEST_CASE("EF21 reaches the optimum of unlike ranks, where top-1 diverges and EF14 stays away",
          "[memory]") {
  // 1 / (L + L_max sqrt(beta / theta)) for alpha = 1/3 (Richtarik et al. 2021, theorem 1).
  constexpr double kRate = 0.00586;
  // Each rank sends -5.5, on another coordinate: x grows by 1 + 11 rate / 6 in each step.
  CHECK(distance_after(1000, kRate, 0, nullptr) > 1000);
  // Kept within about rate |b| of the optimum by what it repeatedly withholds.
  CHECK(distance_after(6000, kRate, 1, ef14(3)) > 1e-3);
  // Strong convexity 7/6: at least (1 - 7/6 rate)^6000 = 1e-18 of the first distance is gone, up to
  // float32's rounding of the gradients of 5 and below.
  CHECK(distance_after(6000, kRate, 1, ef21(3)) < 1e-5);
  CHECK(distance_after(6000, kRate, 0, ef21(3)) < 1e-5);
}

namespace {

/// |x|^2 in the mean over the last half of the steps, for the gradient x + noise of one value per
/// coordinate and rank, by top-1.
double noisy_square(float momentum, std::uint64_t seed) {
  constexpr std::size_t kCount = 32, kRanks = 4;
  constexpr int kSteps = 3000;
  constexpr float kRate = 0.01f;
  const auto top1 = codec::make_compressor("topk", {.density = 1.0 / kCount});
  Ranks ranks(*top1, kRanks, kCount, ef21(kCount, momentum));
  std::vector<float> x(kCount, 1.0f);
  double mean = 0;
  for (int s = 0; s < kSteps; ++s) {
    const auto applied = ranks.step([&](std::size_t rank) {
      auto gradient = test::gaussian(kCount, {.run_seed = seed,
                                              .step = static_cast<StepId>(s),
                                              .rank = static_cast<std::uint32_t>(rank)});
      for (std::size_t i = 0; i < kCount; ++i) gradient[i] += x[i];
      return gradient;
    });
    for (std::size_t i = 0; i < kCount; ++i) x[i] -= kRate * applied[i];
    if (s >= kSteps / 2) mean += 2 * square(x) / kSteps;
  }
  return mean;
}

}  // namespace

TEST_CASE("momentum makes EF21 with top-1 stand noise", "[memory]") {
  double plain = 0, with_momentum = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    plain += noisy_square(1, seed) / 5;
    with_momentum += noisy_square(0.02f, seed) / 5;
  }
  INFO("plain " << plain << ", with momentum " << with_momentum);
  CHECK(with_momentum < plain / 3);
}
