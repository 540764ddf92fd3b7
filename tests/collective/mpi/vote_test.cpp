// SPDX-License-Identifier: Apache-2.0
// signSGD's majority vote over real ranks, and Signum's momentum before it.

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "codec/catalogue.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "optim/optimizer.hpp"
#include "pipeline/engine.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

/// A compressed matrix and a vector that is sent as float32.
Layout layout_of(std::size_t count) {
  return {{"weight", {2, static_cast<std::int64_t>(count / 2)}, 0, count}, {"bias", {4}, count, 4}};
}

/// Value c of rank r: below zero if bit r of c is set. All combinations of up to 8 ranks occur.
float ballot(std::size_t c, Rank rank) { return c >> rank & 1 ? -0.25f : 3.0f; }

constexpr StepId kSteps = 20;

/// signSGD's vote on the momentum (0.9) of `count` compressed values and 4 that are sent as
/// float32.
class Signum {
 public:
  explicit Signum(std::size_t count)
      : plan_(pipeline::plan_buckets(layout_of(count), *compressor_, {.skip_below = 0})),
        collective_(make_allgather(comm_, *compressor_, plan_)),
        memory_(make_signum_memory(count + 4, 0.9f)) {}

  /// The votes for a gradient of 10s in step 0 and of -1s in all others. The momentum is 0.1 * 10 =
  /// 1 after the first one and then 2 * 0.9^t - 1, which turns after t = 7 steps: 0.9^6 > 1/2 >
  /// 0.9^7.
  std::vector<float> mean(StepId step, std::size_t size) {
    std::vector<float> values(size, step == 0 ? 10.0f : -1.0f);
    for (const FusionBucket& bucket : plan_) {
      memory_->compensate(bucket, values);
      const MeanResult result = mean_of(*collective_, comm_, bucket,
                                        {.run_seed = 1, .step = step, .density = {}}, values);
      memory_->remember(bucket, result.contribution);
    }
    return values;
  }

  static int sign_of_momentum(StepId step) { return step < 7 ? 1 : -1; }

 private:
  comm::Communicator comm_{test::session(), 30};
  std::unique_ptr<codec::Compressor> compressor_ = codec::make_compressor("signsgd");
  std::vector<FusionBucket> plan_;
  std::unique_ptr<Collective> collective_;
  std::unique_ptr<GradientMemory> memory_;
};

}  // namespace

TEST_CASE("the allgather's mean of signs is the majority, ties positive", "[vote]") {
  comm::Communicator comm(test::session(), 30);
  const auto compressor = codec::make_compressor("signsgd");
  constexpr std::size_t kCount = 4096;
  const auto plan = pipeline::plan_buckets(layout_of(kCount), *compressor, {.skip_below = 0});
  const auto collective = make_allgather(comm, *compressor, plan);
  std::vector<float> values(kCount + 4);
  for (std::size_t c = 0; c < kCount; ++c) values[c] = ballot(c, comm.rank());
  // Raw: the ranks' mean is a little below 0, 0, a little above it, and far above it.
  const float last = comm.rank() + 1 == comm.size() ? 1.0f : 0.0f;
  const std::array<float, 4> raw = {-1e-6f * last, 0.0f, 1e-6f * last, 100.0f * last};
  std::ranges::copy(raw, values.begin() + kCount);
  for (const FusionBucket& bucket : plan) {
    (void)mean_of(*collective, comm, bucket, {.run_seed = 1, .step = 0, .density = {}}, values);
  }
  int wrong = 0;
  for (std::size_t c = 0; c < kCount; ++c) {
    int against = 0;
    for (Rank r = 0; r < comm.size(); ++r) against += ballot(c, r) < 0;
    wrong += values[c] != (2 * against > comm.size() ? -1.0f : 1.0f);
  }
  CHECK(wrong == 0);
  // Segments that are sent raw: the sign of their mean, however small it is.
  CHECK(std::vector<float>(values.begin() + kCount, values.end()) ==
        std::vector<float>{-1, 1, 1, 1});
}

TEST_CASE("Signum votes on each rank's own momentum", "[vote]") {
  constexpr std::size_t kCount = 64;
  Signum signum(kCount);
  for (StepId step = 0; step < kSteps; ++step) {
    const std::vector<float> mean = signum.mean(step, kCount + 4);
    CHECK(mean[0] == static_cast<float>(Signum::sign_of_momentum(step)));
    CHECK(mean[kCount] == mean[0]);  // raw: the same momentum, and the sign of its mean
  }
}

TEST_CASE("Signum changes every value by rate (sign + decay x), also raw ones", "[vote]") {
  constexpr std::size_t kCount = 64;
  Signum signum(kCount);
  // Bernstein et al. 2018, algorithm 2 (Signum): x <- x - rate (sign(m) + decay x); the decay is in
  // no momentum.
  constexpr double kRate = 0.01, kDecay = 0.5;
  const auto optimizer = optim::make_sgd(
      kCount + 4,
      {.momentum = 0, .weight_decay = static_cast<float>(kDecay), .momentum_corrected = {}});
  std::vector<float> parameters(kCount + 4, 1.0f);
  double expected = 1;
  for (StepId step = 0; step < kSteps; ++step) {
    optimizer->step(parameters, signum.mean(step, kCount + 4), static_cast<float>(kRate));
    expected -= kRate * (Signum::sign_of_momentum(step) + kDecay * expected);
    for (const float value : parameters)
      CHECK(static_cast<double>(value) == Approx(expected).margin(1e-6));
  }
}
