// SPDX-License-Identifier: Apache-2.0
// Ring and recursive doubling: how errors grow, and that error feedback loses none of them.

#include <algorithm>
#include <cmath>

#include "codec/catalogue.hpp"
#include "collective/memory.hpp"
#include "support/catch.hpp"
#include "support/coin_codec.hpp"
#include "support/mpi_world.hpp"
#include "support/partial_sums.hpp"

using namespace eqt;
using namespace eqt::collective;
using test::average;
using test::both;

namespace {

constexpr double kVariance = test::CoinCodec::kVariance;

using Gradients = std::vector<std::vector<float>>;  // by rank

Gradients gradients_of_all(int ranks, std::size_t count, bool equal) {
  Gradients all;
  for (int r = 0; r < ranks; ++r) all.push_back(test::gradient_of(equal ? 0 : r, count));
  return all;
}

/// |sum of the given ranks' values|^2 in [begin, end).
double square_of_sum(const Gradients& all, const std::vector<int>& ranks, std::size_t begin,
                     std::size_t end) {
  double square = 0;
  for (std::size_t i = begin; i < end; ++i) {
    double sum = 0;
    for (const int r : ranks) sum += static_cast<double>(all[static_cast<std::size_t>(r)][i]);
    square += sum * sum;
  }
  return square;
}

/// eps sum_k (1 + eps)^(n-k) |S_k|^2: of the sums, for a codec whose variance is exactly eps.
double ring_error(const Gradients& all, double eps) {
  const auto n = static_cast<int>(all.size());
  const std::size_t count = all[0].size();
  double error = 0;
  for (std::size_t s = 0; s < count / 8192; ++s) {
    std::vector<int> passed;
    for (int k = 1; k <= n; ++k) {
      passed.push_back((static_cast<int>(s) + k - 1) % n);
      error += eps * std::pow(1 + eps, n - k) *
               square_of_sum(all, passed, count - 8192 * (s + 1), count - 8192 * s);
    }
  }
  return error;
}

/// eps sum_t (1 + eps)^(T-1-t) sum_G |S_G|^2, and (1 + eps)^T eps |g|^2 for each extra rank.
double doubling_error(const Gradients& all, double eps) {
  const test::Places places(static_cast<int>(all.size()));
  double error = 0;
  for (std::size_t width = 1, t = 0; width < places.rank.size(); width *= 2, ++t) {
    for (std::size_t first = 0; first < places.rank.size(); first += width) {
      std::vector<int> group;
      for (std::size_t p = first; p < first + width; ++p) {
        group.push_back(places.rank[p]);
        if (places.extra[p] >= 0) group.push_back(places.extra[p]);
      }
      error += eps * std::pow(1 + eps, places.rounds - 1 - static_cast<int>(t)) *
               square_of_sum(all, group, 0, all[0].size());
    }
  }
  for (const int extra : places.extra) {
    if (extra < 0) continue;
    error += eps * std::pow(1 + eps, places.rounds) * square_of_sum(all, {extra}, 0, all[0].size());
  }
  return error;
}

/// |n * mean - exact sum|^2, averaged over steps.
double measured_error(comm::Communicator& comm, test::MakeCollective make,
                      const codec::Compressor& compressor, const Gradients& all) {
  const auto plan = pipeline::plan_buckets(test::one_tensor(all[0].size() / 8192), compressor, {});
  const auto collective = make(comm, compressor, plan);
  constexpr int kDraws = 6;
  double error = 0;
  for (StepId step = 0; step < kDraws; ++step) {
    auto values = all[static_cast<std::size_t>(comm.rank())];
    average(comm, *collective, plan, step, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (const auto& gradient : all) sum += static_cast<double>(gradient[i]);
      const double d = static_cast<double>(values[i]) * comm.size() - sum;
      error += d * d / kDraws;
    }
  }
  return error;
}

struct Case {
  std::string name;
  test::MakeCollective make;
  std::unique_ptr<codec::Compressor> compressor;
};

std::vector<Case> feedback_cases() {
  using namespace codec;
  std::vector<Case> cases;
  for (const auto& [name, make] : both()) {
    cases.push_back({name, make, make_compressor("bf16")});
    cases.push_back({name, make, make_compressor("elastiquant", {.bits = 4, .bucket_size = 512})});
    if (name == "ring") continue;
    cases.push_back({name, make, make_compressor("topk", {.density = 0.1})});
    cases.push_back({name, make, make_compressor("randomk", {.density = 0.1})});
    cases.push_back({name, make, make_compressor("onebit")});
    cases.push_back({name, make, make_compressor("ef-signsgd")});
  }
  return cases;
}

/// One step as in GradientAveraging: with a fused residual, or with the contribution.
void step_with_memory(comm::Communicator& comm, Collective& collective,
                      std::span<const FusionBucket> plan, StepId step, bool fused,
                      GradientMemory& memory, std::span<float> values) {
  for (const FusionBucket& bucket : plan) {
    MeanContext context{.run_seed = 1, .step = step, .density = {}};
    if (fused) {
      context.residual = memory.residual();
    } else {
      memory.compensate(bucket, values);
    }
    const MeanResult result = mean_of(collective, comm, bucket, context, values);
    if (!fused) memory.remember(bucket, result.contribution);
  }
}

}  // namespace

TEST_CASE("errors of partial sums grow as the cost formulas say", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const std::size_t count = 8192 * 2 * static_cast<std::size_t>(comm.size());
  for (const bool equal : {false, true}) {
    const Gradients all = gradients_of_all(comm.size(), count, equal);
    const double ring = measured_error(comm, &make_ring, test::CoinCodec(), all);
    const double doubling = measured_error(comm, &make_recursive_doubling, test::CoinCodec(), all);
    INFO((equal ? "equal" : "independent")
         << " gradients: ring " << ring << ", doubling " << doubling);
    // The coin's variance is exact, so the bounds are equalities. 100,000 and more squares of
    // independent errors: their mean is within 2 % of the expectation, by 4 standard errors.
    CHECK(ring == Approx(ring_error(all, kVariance)).epsilon(0.04));
    if (comm.size() == 1) {
      CHECK(doubling == 0);
    } else {
      CHECK(doubling == Approx(doubling_error(all, kVariance)).epsilon(0.04));
    }
  }
}

TEST_CASE("real codecs stay below the bounds", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const std::size_t count = 8192 * static_cast<std::size_t>(comm.size());
  const Gradients all = gradients_of_all(comm.size(), count, false);
  const auto eight_bits = codec::make_compressor("elastiquant", {.bits = 8, .bucket_size = 512});
  const auto natural = codec::make_compressor("natural");
  // Worst cases of the papers: 8 bits, buckets of 512, L2 (reference table); natural, 1/8.
  const std::vector<std::pair<const codec::Compressor*, double>> codecs = {
      {eight_bits.get(), 0.000393}, {natural.get(), 0.125}};
  for (const auto& [compressor, eps] : codecs) {
    INFO(codec::codec_name(compressor->id()));
    const double ring = measured_error(comm, &make_ring, *compressor, all);
    CHECK(ring > 0.2 * ring_error(all, eps));
    CHECK(ring < ring_error(all, eps));
    if (comm.size() == 1) continue;
    const double doubling = measured_error(comm, &make_recursive_doubling, *compressor, all);
    CHECK(doubling > 0.2 * doubling_error(all, eps));
    CHECK(doubling < doubling_error(all, eps));
  }
}

TEST_CASE("applied means and residuals add up to the gradients", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = {
      {"a", {130, 129}, 0, 16770}, {"b", {64}, 16770, 64}, {"c", {200, 100}, 16834, 20000}};
  const std::size_t count = total_count(layout);
  for (const Case& test_case : feedback_cases()) {
    const auto plan =
        pipeline::plan_buckets(layout, *test_case.compressor, {.bucket_bytes = 40000});
    for (const bool fused : {false, true}) {
      const auto collective = test_case.make(comm, *test_case.compressor, plan);
      const auto memory = make_error_feedback(count);
      std::vector<double> given(count), applied(count), kept(count);
      double residual_square = 0;
      for (StepId step = 0; step < 4; ++step) {
        auto values = test::gradient_of(comm.rank(), count, step);
        for (std::size_t i = 0; i < count; ++i) given[i] += static_cast<double>(values[i]);
        step_with_memory(comm, *collective, plan, step, fused, *memory, values);
        for (std::size_t i = 0; i < count; ++i) {
          applied[i] += static_cast<double>(values[i]) * comm.size();
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        kept[i] = static_cast<double>(memory->residual()[i]);
        residual_square += kept[i] * kept[i];
      }
      comm.allreduce_sum(std::span(given));
      comm.allreduce_sum(std::span(kept));
      double worst = 0;
      for (std::size_t i = 0; i < count; ++i) {
        worst = std::max(worst, std::abs(given[i] - applied[i] - kept[i]));
      }
      INFO(test_case.name << " " << codec::codec_name(test_case.compressor->id())
                          << (fused ? " fused" : ""));
      // Up to float32 rounding of sums of a few dozen.
      CHECK(worst < 1e-4);
      if (comm.size() > 1) CHECK(residual_square > 0);
    }
  }
}

TEST_CASE("a contribution and a fused residual give the same error", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test::one_tensor(9);
  for (const Case& test_case : feedback_cases()) {
    const auto plan =
        pipeline::plan_buckets(layout, *test_case.compressor, {.split_bytes = 100000});
    std::vector<std::vector<float>> residuals;
    for (const bool fused : {false, true}) {
      const auto collective = test_case.make(comm, *test_case.compressor, plan);
      const auto memory = make_error_feedback(layout[0].count);
      auto values = test::gradient_of(comm.rank(), layout[0].count);
      step_with_memory(comm, *collective, plan, 0, fused, *memory, values);
      residuals.emplace_back(memory->residual().begin(), memory->residual().end());
    }
    double worst = 0;
    for (std::size_t i = 0; i < residuals[0].size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(residuals[0][i]) - residuals[1][i]));
    }
    INFO(test_case.name << " " << codec::codec_name(test_case.compressor->id()));
    CHECK(worst < 2e-5);
  }
}

TEST_CASE("what a residual holds from before is applied, on one rank too", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test::one_tensor(2);
  const std::size_t count = layout[0].count;
  for (const Case& test_case : feedback_cases()) {
    INFO(test_case.name << " " << codec::codec_name(test_case.compressor->id()));
    const auto plan = pipeline::plan_buckets(layout, *test_case.compressor, {});
    const auto collective = test_case.make(comm, *test_case.compressor, plan);
    const auto memory = make_error_feedback(count);
    const auto before = test::gradient_of(comm.rank(), count);
    std::ranges::copy(before, memory->residual().begin());
    std::vector<double> given(before.begin(), before.end());
    std::vector<float> values(count);
    step_with_memory(comm, *collective, plan, 0, collective->takes_residual(), *memory, values);
    std::vector<double> kept(memory->residual().begin(), memory->residual().end());
    comm.allreduce_sum(std::span(given));
    comm.allreduce_sum(std::span(kept));
    double worst = 0, applied_square = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double applied = static_cast<double>(values[i]) * comm.size();
      worst = std::max(worst, std::abs(given[i] - applied - kept[i]));
      applied_square += applied * applied;
    }
    CHECK(worst < 1e-4);
    CHECK(applied_square > 0);
  }
}
