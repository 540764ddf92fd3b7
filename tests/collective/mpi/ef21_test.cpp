// SPDX-License-Identifier: Apache-2.0
// EF21 in every collective that carries error feedback.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/catalogue.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::collective;
using namespace eqt::sync;

namespace {

Layout test_layout() { return test::layout_of({{64, 60}, {60}, {100, 30}, {40, 50}, {10}}); }
constexpr std::size_t kCount = 8910;

struct Case {
  const CollectiveRow* collective;
  std::string compressor;
  codec::CompressorOptions options = {};
  bool encodes_means = false;  // and keeps what it dropped: part of the mean of all g_m, not of g
};

std::vector<Case> cases() {
  return {
      {&kAllgather, "topk", {.density = 0.1}},
      {&kAllgather, "onebit"},
      {&kScatterReduce, "elastiquant", {.bits = 4, .bucket_size = 512}, true},
      {&kScatterReduce, "int8", {.bucket_size = 512}, true},
      {&kRing, "elastiquant", {.bits = 8, .bucket_size = 512}},
      {&kRecursiveDoubling, "topk", {.density = 0.1}},
      {&kInteger, "int8", {.bucket_size = 512}},
      {&kSparse, "topk", {.density = 0.1}, true},
      {&kHierarchical, "topk", {.density = 0.1}},
      {&kHierarchical, "elastiquant", {.bits = 4, .bucket_size = 512}, true},
      {&kPowerSgd, "powersgd", {.rank = 4}},
  };
}

/// Every two ranks act as a host, so that messages are sent within and between hosts.
comm::Communicator two_ranks_a_host() {
  const int size = comm::Communicator(test::session(), 30).size();
  std::vector<int> hosts;
  for (int r = 0; r < size; ++r) hosts.push_back(r / 2);
  return {test::session(), 30, hosts};
}

std::vector<float> gradient_of(Rank rank, StepId step) {
  return test::gaussian(kCount,
                        {.run_seed = 4, .step = step, .rank = static_cast<std::uint32_t>(rank)});
}

/// One rank's parts of a run.
class Averaging {
 public:
  Averaging(comm::Communicator& comm, const Case& from, float momentum)
      : compressor_(codec::make_compressor(from.compressor, from.options)),
        memory_(make_ef21(kCount, momentum)),
        gradient_(kCount) {
    const auto plan = pipeline::plan_buckets(
        layout_, *compressor_,
        {.bucket_bytes = 16000, .split_bytes = from.collective->split_bytes});
    collective_ = from.collective->make({.comm = comm,
                                         .compressor = *compressor_,
                                         .plan = plan,
                                         .reducer_feedback = true,
                                         .power_sgd = {.rank = 4, .run_seed = 1}});
    GradientAveragingOptions options;
    options.lossy = true;
    synchronizer_ = make_gradient_averaging(comm, *collective_, memory_.get(), plan, layout_,
                                            gradient_, options);
  }

  /// What the step applies.
  std::span<const float> step(StepId step, std::span<const float> gradient) {
    synchronizer_->begin(step, 0);
    std::ranges::copy(gradient, gradient_.begin());
    for (std::size_t i = layout_.size(); i-- > 0;) synchronizer_->slice_ready(i);
    last_ = synchronizer_->finish();
    return gradient_;
  }

  const GradientMemory& memory() const { return *memory_; }
  const SyncResult& last() const { return last_; }
  void visit_state(StateVisitor& visitor) { synchronizer_->visit_state(visitor); }

 private:
  const Layout layout_ = test_layout();
  std::unique_ptr<codec::Compressor> compressor_;
  std::unique_ptr<GradientMemory> memory_;
  std::vector<float> gradient_;
  std::unique_ptr<Collective> collective_;
  std::unique_ptr<Synchronizer> synchronizer_;
  SyncResult last_;
};

/// The exact mean of a value that every rank has, by MPI.
std::vector<double> mean_over_ranks(comm::Communicator& comm, std::span<const float> own,
                                    double sign = 1) {
  std::vector<double> mean(own.begin(), own.end());
  comm.allreduce_sum(std::span(mean));
  for (double& value : mean) value *= sign / comm.size();
  return mean;
}

double largest_difference(std::span<const double> a, std::span<const float> b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - static_cast<double>(b[i])));
  return worst;
}

}  // namespace

TEST_CASE("with gradients that stay, what EF21 applies becomes their mean", "[ef21]") {
  comm::Communicator comm = two_ranks_a_host();
  const std::vector<float> own = gradient_of(comm.rank(), 0);
  const auto mean = mean_over_ranks(comm, own);
  for (const Case& from : cases()) {
    INFO(from.collective->name << " " << from.compressor);
    for (const float momentum : {1.0f, 0.5f}) {
      Averaging averaging(comm, from, momentum);
      for (StepId step = 0; step < 80; ++step) (void)averaging.step(step, own);
      const auto applied = averaging.step(80, own);
      CHECK_NOTHROW(comm.require_same(test::hash_of(applied), "applied gradient"));
      // Rounding of float32 values of about 4, in each step. Signs lose half of the square of
      // Gaussian errors, and less of what is then left, whose sizes differ more.
      CHECK(largest_difference(mean, applied) < (from.compressor == "onebit" ? 0.05 : 3e-5));
    }
  }
}

TEST_CASE("what EF21 applies is the mean of what ranks know of each other", "[ef21]") {
  comm::Communicator comm = two_ranks_a_host();
  for (const Case& from : cases()) {
    if (from.encodes_means) continue;
    INFO(from.collective->name << " " << from.compressor);
    Averaging averaging(comm, from, 0.5f);
    const Layout layout = test_layout();
    for (StepId step = 0; step < 20; ++step) {
      const auto applied = averaging.step(step, gradient_of(comm.rank(), step));
      const auto known = mean_over_ranks(comm, averaging.memory().negated_estimate(), -1);
      for (const std::size_t matrix : {0u, 2u, 3u}) {
        const TensorSlice& slice = layout[matrix];
        CHECK(largest_difference(std::span(known).subspan(slice.offset, slice.count),
                                 applied.subspan(slice.offset, slice.count)) < 1e-5);
      }
    }
  }
}

TEST_CASE("a first step by EF21 is one by the compressor alone", "[ef21]") {
  comm::Communicator comm(test::session(), 30);
  const Case from = {&kAllgather, "topk", {.density = 0.1}};
  for (const float momentum : {1.0f, 0.1f}) {
    Averaging averaging(comm, from, momentum);
    const auto applied = averaging.step(0, gradient_of(comm.rank(), 0));
    CHECK(averaging.last().quantization_variance.has_value());
    const auto compressor = codec::make_compressor(from.compressor, from.options);
    const auto plan = pipeline::plan_buckets(test_layout(), *compressor, {.bucket_bytes = 16000});
    const auto collective = make_allgather(comm, *compressor, plan);
    auto values = gradient_of(comm.rank(), 0);
    for (const FusionBucket& bucket : plan)
      mean_of(*collective, comm, bucket, {.run_seed = 1, .density = {}}, values);
    CHECK(std::ranges::equal(applied, values));
  }
}

TEST_CASE("the measured error of EF21's mean is relative to the exact mean", "[ef21]") {
  comm::Communicator comm(test::session(), 30);
  Averaging averaging(comm, {&kAllgather, "topk", {.density = 0.1}}, 1);
  const std::vector<float> own = gradient_of(comm.rank(), 0);
  const auto mean = mean_over_ranks(comm, own);
  for (StepId step = 0; step <= kVarianceEvery; ++step) {
    const auto applied = averaging.step(step, own);
    if (step % kVarianceEvery != 0) continue;
    double error = 0, exact = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      error += std::pow(static_cast<double>(applied[i]) - mean[i], 2);
      exact += mean[i] * mean[i];
    }
    REQUIRE(averaging.last().mean_sketch.has_value());
    MeanSketch sketch = *averaging.last().mean_sketch;
    comm.allreduce_sum(std::span<double>(sketch.exact));
    // Five times the standard deviation of quotients of sums of 256.
    CHECK(sketch.relative_error(comm.size()).value_or(-1) ==
          Approx(error / exact).epsilon(5 * std::sqrt(2 * 2.0 / 256)));
  }
}

namespace {

/// Goes on from saved state as other ranks do, of which some file is lost: what begins anew stays,
/// and owners get what is left of what they kept.
class ConvertedState final : public test::StateSource {
 public:
  explicit ConvertedState(test::CopiedState& saved) : saved_(saved) {}
  void values(std::string_view name, std::span<float> values, Across across) override {
    std::vector<float> read(values.size());
    saved_.values(name, read, across);
    if (across != Across::fresh) std::ranges::copy(read, values.begin());
  }
  void numbers(std::string_view name, std::span<std::uint64_t> values, Across across) override {
    saved_.numbers(name, values, across);
  }
  void placed(std::string_view name, std::span<float> values,
              const std::function<std::vector<SliceRange>()>& places) override {
    saved_.placed(name, values, places);
    std::ranges::fill(values.first(values.size() / 2), 0.0f);
  }
  bool converts() const noexcept override { return true; }

 private:
  test::CopiedState& saved_;
};

}  // namespace

TEST_CASE("where EF21 goes on without some rank's estimate, nothing of it stays in the mean",
          "[ef21]") {
  comm::Communicator comm = two_ranks_a_host();
  const std::vector<float> own = gradient_of(comm.rank(), 0);
  const auto mean = mean_over_ranks(comm, own);
  for (const Case& from : cases()) {
    if (from.compressor == "onebit") continue;  // it is not exact within so few steps
    INFO(from.collective->name << " " << from.compressor);
    Averaging before(comm, from, 1);
    for (StepId step = 0; step < 3; ++step) (void)before.step(step, gradient_of(comm.rank(), step));
    test::CopiedState state;
    before.visit_state(state);
    state.restore_from_now();
    Averaging after(comm, from, 1);
    ConvertedState converted(state);
    after.visit_state(converted);
    for (StepId step = 0; step < 80; ++step) (void)after.step(step, own);
    CHECK(largest_difference(mean, after.step(80, own)) < 3e-5);  // as above
  }
}

TEST_CASE("EF21 that goes on from saved state ends with the same bits", "[ef21]") {
  comm::Communicator comm = two_ranks_a_host();
  for (const Case& from : cases()) {
    INFO(from.collective->name << " " << from.compressor);
    for (const float momentum : {1.0f, 0.3f}) {
      Averaging whole(comm, from, momentum);
      test::CopiedState state;
      for (StepId step = 0; step < 3; ++step)
        (void)whole.step(step, gradient_of(comm.rank(), step));
      whole.visit_state(state);
      Averaging resumed(comm, from, momentum);
      state.restore_from_now();
      resumed.visit_state(state);
      for (StepId step = 3; step < 6; ++step) {
        const auto expected = whole.step(step, gradient_of(comm.rank(), step));
        const auto found = resumed.step(step, gradient_of(comm.rank(), step));
        CHECK(std::ranges::equal(found, expected));
      }
    }
  }
}
