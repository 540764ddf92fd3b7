// SPDX-License-Identifier: Apache-2.0
// The estimator of the gradients' noise against drawn gradients whose noise is known, with every
// grade of the menu; and what compression is predicted to add.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "adaptation/gradient_noise.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "core/square_norm.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"

using namespace eqt;
using namespace eqt::adaptation;

namespace {

constexpr std::size_t kCount = 1024;
constexpr std::size_t kBucket = 256;
constexpr int kDraws = 400;

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<RankBatch> batches_of(const std::vector<double>& samples) {
  const double all = std::accumulate(samples.begin(), samples.end(), 0.0);
  std::vector<RankBatch> batches;
  for (const double b : samples)
    batches.push_back({.samples = b, .weight = static_cast<double>(samples.size()) * b / all});
  return batches;
}

struct Moments {
  double sum = 0, squares = 0;
  int count = 0;
  void add(double x) {
    sum += x;
    squares += x * x;
    ++count;
  }
  double mean() const { return sum / count; }
  double deviation_of_mean() const {
    return std::sqrt((squares / count - mean() * mean()) / (count - 1));
  }
};

/// A step of n ranks: true gradient `signal`, noise of `tau` per sample, each gradient encoded.
struct Drawn {
  std::vector<SliceSums> sums;
  double added = 0;  // |mean - exact mean|^2
  SliceError error;
};

Drawn draw(const codec::Compressor& grade, std::span<const float> signal, double tau,
           std::span<const RankBatch> batches, std::uint64_t step) {
  const auto n = static_cast<double>(batches.size());
  std::vector<float> mean(kCount), exact(kCount);
  std::vector<std::vector<float>> gradients;
  Workspace workspace;
  Drawn drawn;
  for (std::size_t r = 0; r < batches.size(); ++r) {
    const auto rank = static_cast<std::uint32_t>(r);
    auto own = test::gaussian(kCount, {.run_seed = 11, .step = step, .rank = rank});
    const auto deviation =
        static_cast<float>(std::sqrt(tau / batches[r].samples / static_cast<double>(kCount)));
    for (std::size_t i = 0; i < kCount; ++i) own[i] = signal[i] + deviation * own[i];
    std::vector<float> sent(own);
    for (float& v : sent) v *= static_cast<float>(batches[r].weight);
    std::vector<std::byte> payload(grade.max_payload_bytes(kCount));
    codec::EncodeContext context;
    context.key = {.run_seed = 12, .step = step, .rank = rank};
    payload.resize(grade.encode(sent, context, workspace, payload));
    std::vector<float> decoded(kCount);
    grade.decode_add(payload, 1, workspace, decoded);
    double error = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      error += std::pow(static_cast<double>(decoded[i]) - sent[i], 2);
      mean[i] += decoded[i] / static_cast<float>(n);
      exact[i] += sent[i] / static_cast<float>(n);
    }
    drawn.error.error += error / n;
    drawn.error.square += square_norm(sent) / n;
    gradients.push_back(std::move(own));
  }
  for (const auto& own : gradients)
    drawn.sums.push_back({.square = square_norm(own), .product = product(own, mean)});
  for (std::size_t i = 0; i < kCount; ++i)
    drawn.added += std::pow(static_cast<double>(mean[i]) - exact[i], 2);
  return drawn;
}

std::vector<float> signal_of(double square) {
  auto signal = test::gaussian(kCount, {.run_seed = 13});
  const auto factor = static_cast<float>(std::sqrt(square / square_norm(signal)));
  for (float& v : signal) v *= factor;
  return signal;
}

}  // namespace

TEST_CASE("signal and noise are estimated without bias with every unbiased grade", "[noise]") {
  const codec::MixedGrades mixed(
      {.bucket_size = kBucket,
       .menu = {"e-elastiquant:3@1", "e-elastiquant:4@0.75", "e-elastiquant:8@1", "none"}});
  const double square = 0.5, tau = 40;
  const auto signal = signal_of(square);
  const std::vector<std::vector<double>> all = {{16, 16},
                                                {8, 24},
                                                {16, 16, 16},
                                                {4, 10, 30},
                                                {16, 16, 16, 16, 16, 16, 16, 16},
                                                {2, 4, 8, 16, 16, 16, 30, 40}};
  for (const std::vector<double>& samples : all) {
    const auto batches = batches_of(samples);
    for (std::size_t k = 0; k < mixed.grades(); ++k) {
      const auto grade = static_cast<codec::GradeIndex>(k);
      INFO(mixed.name_of(grade) << " with " << samples.size() << " ranks");
      Moments found_signal, found_noise, added, predicted;
      const double all_samples = std::accumulate(samples.begin(), samples.end(), 0.0);
      for (int i = 0; i < kDraws; ++i) {
        const Drawn drawn =
            draw(mixed.grade(grade), signal, tau, batches, static_cast<std::uint64_t>(i));
        const NoiseEstimate estimate = estimate_noise(drawn.sums, batches);
        found_signal.add(estimate.signal);
        found_noise.add(estimate.sample_noise);
        added.add(drawn.added);
        predicted.add(added_noise(drawn.error, square, tau / all_samples,
                                  static_cast<int>(batches.size()), 1));
      }
      CHECK(std::abs(found_signal.mean() - square) < 5 * found_signal.deviation_of_mean());
      CHECK(std::abs(found_noise.mean() - tau) < 5 * found_noise.deviation_of_mean());
      CHECK(std::abs(added.mean() - predicted.mean()) <=
            5 * (added.deviation_of_mean() + predicted.deviation_of_mean()));
    }
  }
}

TEST_CASE("pairs of steps see noise where ranks have different data, other steps see too much",
          "[noise]") {
  constexpr double kTau = 6;
  const auto batches = batches_of({8, 24, 32});
  const auto ranks = static_cast<std::uint32_t>(batches.size());
  std::vector<std::vector<float>> signals;  // by rank
  std::vector<float> mean_signal(kCount);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    signals.push_back(test::gaussian(kCount, {.run_seed = 21, .rank = r}));
    for (std::size_t i = 0; i < kCount; ++i) {
      signals[r][i] *= 0.05f;
      mean_signal[i] += static_cast<float>(batches[r].weight) * signals[r][i] / 3;
    }
  }
  Moments signal, noise, by_ranks;
  for (std::uint64_t pair = 0; pair < kDraws; ++pair) {
    std::vector<SliceSums> sums(ranks);
    std::vector<std::vector<float>> now(ranks);
    std::vector<float> mean(kCount);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const auto deviation =
          static_cast<float>(std::sqrt(kTau / batches[r].samples / static_cast<double>(kCount)));
      const auto drawn = [&](std::uint64_t step) {
        auto values = test::gaussian(kCount, {.run_seed = 22, .step = step, .rank = r});
        for (std::size_t i = 0; i < kCount; ++i) values[i] = signals[r][i] + deviation * values[i];
        return values;
      };
      const auto before = drawn(2 * pair);
      now[r] = drawn(2 * pair + 1);
      for (std::size_t i = 0; i < kCount; ++i) {
        mean[i] += static_cast<float>(batches[r].weight) * now[r][i] / 3;
        const double change = static_cast<double>(now[r][i]) - static_cast<double>(before[i]);
        sums[r].change += change * change / 2;
      }
    }
    for (std::uint32_t r = 0; r < ranks; ++r) {
      sums[r].square = product(now[r], now[r]);
      sums[r].product = product(now[r], mean);
    }
    const NoiseEstimate found = estimate_noise_of_pairs(sums, batches);
    signal.add(found.signal);
    noise.add(found.sample_noise);
    by_ranks.add(estimate_noise(sums, batches).sample_noise);
  }
  const double square = square_norm(mean_signal);
  CHECK(std::abs(signal.mean() - square) < 5 * signal.deviation_of_mean());
  // With weights b_i n / B the mean has the noise of all samples: tau / B.
  CHECK(std::abs(noise.mean() - kTau) < 5 * noise.deviation_of_mean());
  CHECK(noise.deviation_of_mean() < 0.01 * kTau);
  CHECK(by_ranks.mean() > 2 * kTau);
}

TEST_CASE("estimates do not depend on the order of the ranks, bit for bit", "[noise]") {
  std::mt19937 random(7);
  std::lognormal_distribution<double> size(0, 3);
  for (int i = 0; i < 200; ++i) {
    const std::size_t n = 2 + static_cast<std::size_t>(i % 7);
    std::vector<SliceSums> sums(n);
    std::vector<double> samples(n);
    for (std::size_t r = 0; r < n; ++r) {
      sums[r] = {.square = size(random), .product = size(random) - 1};
      samples[r] = 1 + std::floor(size(random));
    }
    const auto batches = batches_of(samples);
    const NoiseEstimate before = estimate_noise(sums, batches);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    std::vector<SliceSums> other_sums;
    std::vector<RankBatch> other_batches;
    for (const std::size_t r : order) {
      other_sums.push_back(sums[r]);
      other_batches.push_back(batches[r]);
    }
    const NoiseEstimate after = estimate_noise(other_sums, other_batches);
    CHECK(before.signal == after.signal);
    CHECK(before.sample_noise == after.sample_noise);
  }
}

TEST_CASE("gradients of twice the size have four times the noise, exactly", "[noise]") {
  const auto batches = batches_of({8, 24, 32});
  const std::vector<SliceSums> sums = {{3.1, 1.2}, {2.3, 1.7}, {2.9, 0.4}};
  std::vector<SliceSums> scaled = sums;
  for (SliceSums& s : scaled) s = {.square = 4 * s.square, .product = 4 * s.product};
  const NoiseEstimate a = estimate_noise(sums, batches), b = estimate_noise(scaled, batches);
  CHECK(b.signal == 4 * a.signal);
  CHECK(b.sample_noise == 4 * a.sample_noise);
}

TEST_CASE("the second quantisation of scatter-reduce does not shrink with the ranks", "[noise]") {
  const SliceError error{.square = 10, .error = 2};
  CHECK(added_noise(error, 6, 1, 4, 1) == Approx(0.5));
  CHECK(added_noise(error, 6, 1, 4, 2) == Approx(0.5 + 0.2 * 7.5));
  // A negative estimate of a square counts as none.
  CHECK(added_noise(error, -6, 1, 4, 2) == Approx(0.5 + 0.2 * 0.5));
  CHECK(added_noise({}, 6, 1, 4, 2) == 0);
}
