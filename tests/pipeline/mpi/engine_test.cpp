// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/parallel.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::collective;
using namespace eqt::sync;

namespace {

Layout test_layout() { return test::layout_of({{64, 300}, {300}, {100, 100}, {40, 50}, {10}}); }
constexpr std::size_t kCount = 31510;

struct Setup {
  std::unique_ptr<codec::Compressor> compressor;
  std::unique_ptr<GradientMemory> memory;
  bool scatters = false;
  // Null: the default for the compressor.
  std::unique_ptr<Collective> (*make)(comm::Communicator&, const codec::Compressor&,
                                      std::span<const FusionBucket>) = nullptr;
  bool hierarchical = false;
};

using MakeSetup = std::function<Setup()>;

std::vector<std::pair<std::string, MakeSetup>> setups() {
  using namespace codec;
  return {
      {"none",
       [] {
         return Setup{make_compressor("none"), nullptr};
       }},
      {"qsgd",
       [] {
         return Setup{make_compressor("qsgd", {.bucket_size = 512}), nullptr, true};
       }},
      {"e-elastiquant",
       [] {
         return Setup{make_compressor("e-elastiquant", {.coding = Coding::automatic}), nullptr};
       }},
      {"terngrad",
       [] {
         return Setup{make_compressor("terngrad"), nullptr};
       }},
      {"topk",
       [] {
         return Setup{make_compressor("topk"), make_error_feedback(kCount)};
       }},
      {"dgc",
       [] {
         return Setup{make_compressor("dgc"), make_dgc_memory(kCount, {})};
       }},
      {"atomo",
       [] {
         return Setup{make_compressor("atomo"), nullptr};
       }},
      {"powersgd",
       [] {
         return Setup{make_compressor("powersgd"), make_error_feedback(kCount)};
       }},
      {"ring",
       [] {
         return Setup{make_compressor("elastiquant", {.bucket_size = 512}),
                      make_error_feedback(kCount), false, &make_ring};
       }},
      {"recursive doubling",
       [] {
         return Setup{make_compressor("qsgd", {.bucket_size = 512}), nullptr, false,
                      &make_recursive_doubling};
       }},
      {"recursive doubling of top-k",
       [] {
         return Setup{make_compressor("topk", {.density = 0.1}), make_error_feedback(kCount), false,
                      &make_recursive_doubling};
       }},
      {"integer qsgd-v",
       [] {
         return Setup{make_compressor("qsgd-v", {.bucket_size = 512}), nullptr, false,
                      &make_integer};
       }},
      {"integer terngrad with feedback",
       [] {
         return Setup{make_compressor("terngrad"), make_error_feedback(kCount), false,
                      &make_integer};
       }},
      {"integer int8 with feedback",
       [] {
         return Setup{make_compressor("int8", {.bucket_size = 512}), make_error_feedback(kCount),
                      false, &make_integer};
       }},
      {"elastiquant with feedback",
       [] {
         return Setup{make_compressor("elastiquant"), make_error_feedback(kCount), true};
       }},
      {"elastiquant with feedback, hierarchical",
       [] {
         return Setup{make_compressor("elastiquant"), make_error_feedback(kCount), false, nullptr,
                      true};
       }},
      {"topk, hierarchical",
       [] {
         return Setup{make_compressor("topk"), make_error_feedback(kCount), false, nullptr, true};
       }},
      {"topk with EF21",
       [] {
         return Setup{make_compressor("topk"), make_ef21(kCount, 1)};
       }},
      {"elastiquant with EF21-SGDM",
       [] {
         return Setup{make_compressor("elastiquant"), make_ef21(kCount, 0.1f), true};
       }},
      {"elastiquant with feedback and threads", [] {
         return Setup{make_parallel(make_compressor("elastiquant", {.bucket_size = 512}), 3, 0),
                      make_error_feedback(kCount), true};
       }}};
}

/// Every two ranks act as a host, so that messages are sent within and between hosts.
comm::Communicator two_ranks_a_host() {
  const int size = comm::Communicator(test::session(), 30).size();
  std::vector<int> hosts;
  for (int r = 0; r < size; ++r) hosts.push_back(r / 2);
  return {test::session(), 30, hosts};
}

std::unique_ptr<Collective> make_collective(comm::Communicator& comm, const Setup& setup,
                                            std::span<const FusionBucket> plan) {
  const bool feedback = setup.memory != nullptr;
  if (setup.make != nullptr) return setup.make(comm, *setup.compressor, plan);
  if (setup.compressor->id() == codec::CodecId::powersgd) {
    return make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
  }
  if (setup.hierarchical) {
    return make_hierarchical(comm, *setup.compressor, plan, {.reducer_feedback = feedback});
  }
  if (!setup.scatters) return make_allgather(comm, *setup.compressor, plan);
  return make_scatter_reduce(comm, *setup.compressor, plan, {.reducer_feedback = feedback});
}

/// Runs `steps` steps and returns the last mean. Slices become ready in a different order on each
/// rank.
std::vector<float> run(comm::Communicator& comm, Setup setup, bool overlap, StepId steps,
                       std::size_t bucket_bytes, std::size_t* allocations = nullptr) {
  const Layout layout = test_layout();
  auto plan = pipeline::plan_buckets(layout, *setup.compressor, {.bucket_bytes = bucket_bytes});
  const auto collective = make_collective(comm, setup, plan);
  std::vector<float> gradient(kCount);
  GradientAveragingOptions options;
  options.overlap = overlap;
  options.lossy = !setup.compressor->properties().lossless;
  const auto synchronizer = make_gradient_averaging(comm, *collective, setup.memory.get(),
                                                    std::move(plan), layout, gradient, options);
  std::vector<std::vector<float>> fresh;
  for (StepId step = 0; step < steps; ++step) {
    fresh.push_back(test::gaussian(
        kCount, {.run_seed = 4, .step = step, .rank = static_cast<std::uint32_t>(comm.rank())}));
  }
  std::size_t before = 0;
  for (StepId step = 0; step < steps; ++step) {
    // Buffers may still grow in the first steps: a payload's size varies with its values.
    if (step == steps / 2) before = test::allocations();
    std::copy(fresh[step].begin(), fresh[step].end(), gradient.begin());
    synchronizer->begin(step, 0);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      synchronizer->slice_ready((i * 2 + static_cast<std::size_t>(comm.rank())) % layout.size());
    }
    (void)synchronizer->finish();
  }
  if (allocations != nullptr) *allocations = test::allocations() - before;
  return gradient;
}

}  // namespace

TEST_CASE("overlap and bucket size change no bit", "[engine]") {
  comm::Communicator comm = two_ranks_a_host();
  for (const auto& [name, make] : setups()) {
    const auto plain = run(comm, make(), false, 5, std::size_t{1} << 22);
    INFO(name);
    CHECK(run(comm, make(), true, 5, std::size_t{1} << 22) == plain);
    CHECK(run(comm, make(), true, 5, 8000) == plain);
    CHECK(run(comm, make(), false, 5, 1) == plain);
  }
}

TEST_CASE("the number of threads changes no bit", "[engine]") {
  comm::Communicator comm(test::session(), 30);
  for (const bool scatters : {false, true}) {
    const auto mean_with = [&](int threads) {
      auto compressor = codec::make_parallel(
          codec::make_compressor("elastiquant", {.bucket_size = 512}), threads, 0);
      return run(comm, {std::move(compressor), make_error_feedback(kCount), scatters}, true, 5,
                 20000);
    };
    const auto one = mean_with(1);
    CHECK(mean_with(2) == one);
    CHECK(mean_with(5) == one);
  }
}

TEST_CASE("after the first steps no step allocates", "[engine]") {
  comm::Communicator comm = two_ranks_a_host();
  for (const auto& [name, make] : setups()) {
    for (const bool overlap : {false, true}) {
      std::size_t allocations = 0;
      (void)run(comm, make(), overlap, 12, 20000, &allocations);
      INFO(name << (overlap ? " overlapped" : ""));
      CHECK(allocations == 0);
    }
  }
}

TEST_CASE("a gradient that is not finite stops the step with its tensor's name", "[engine]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const bool overlap : {false, true}) {
    const auto none = codec::make_compressor("none");
    auto plan = pipeline::plan_buckets(layout, *none, {});
    const auto collective = make_allgather(comm, *none, plan);
    std::vector<float> gradient(kCount, 1.0f);
    gradient[19503] = std::numeric_limits<float>::infinity();  // on all ranks, so that none waits
    GradientAveragingOptions options;
    options.overlap = overlap;
    const auto synchronizer = make_gradient_averaging(comm, *collective, nullptr, std::move(plan),
                                                      layout, gradient, options);
    synchronizer->begin(7, 0);
    for (std::size_t i = layout.size(); i-- > 0;) synchronizer->slice_ready(i);
    try {
      (void)synchronizer->finish();
      FAIL_CHECK("an infinite gradient was not noticed");
    } catch (const Error& error) {
      const std::string sentence = error.what();
      INFO(sentence);
      CHECK(error.kind() == Kind::diverged);
      CHECK(sentence.find("step 7") != std::string::npos);
      CHECK(sentence.find("gradient of tensor2") != std::string::npos);
      CHECK(sentence.find("index 3") != std::string::npos);
    }
  }
}

TEST_CASE("the measured variance is that of the rank's own message", "[engine]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const auto compressor = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  auto plan = pipeline::plan_buckets(layout, *compressor, {});
  const auto collective = make_allgather(comm, *compressor, plan);
  std::vector<float> gradient =
      test::gaussian(kCount, {.run_seed = 4, .rank = static_cast<std::uint32_t>(comm.rank())});
  GradientAveragingOptions options;
  options.lossy = true;
  const auto synchronizer = make_gradient_averaging(comm, *collective, nullptr, std::move(plan),
                                                    layout, gradient, options);
  synchronizer->begin(0, 0);
  for (std::size_t i = 0; i < layout.size(); ++i) synchronizer->slice_ready(i);
  const SyncResult result = synchronizer->finish();
  REQUIRE(result.quantization_variance);
  // Gaussian buckets of 512, 7 levels up to the maximum of about 3.1: a step of 0.44 and a mean
  // squared error of at most a quarter and about a sixth of its square.
  CHECK(*result.quantization_variance > 0.02);
  CHECK(*result.quantization_variance < 0.05);
}

namespace {

/// |applied - mean|^2 / |mean|^2, from every rank's gradient.
double error_of_mean(std::span<const float> applied, int ranks, StepId step) {
  std::vector<double> mean(applied.size());
  for (Rank r = 0; r < ranks; ++r) {
    const auto theirs = test::gaussian(
        applied.size(), {.run_seed = 4, .step = step, .rank = static_cast<std::uint32_t>(r)});
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(theirs[i]) / ranks;
  }
  double error = 0, square = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    error += (applied[i] - mean[i]) * (applied[i] - mean[i]);
    square += mean[i] * mean[i];
  }
  return error / square;
}

struct Errors {
  double own = 0, measured = 0, exact = 0;  // means over steps; own over ranks, too
  int own_count = 0;
};

/// By scatter-reduce, of Gaussian gradients.
Errors errors_of_scatter_reduce(comm::Communicator& comm, std::size_t count, int steps) {
  const Layout layout = {{"w", {static_cast<std::int64_t>(count / 64), 64}, 0, count}};
  const auto compressor = codec::make_compressor("qsgd-v", {.bits = 3, .bucket_size = 64});
  auto plan = pipeline::plan_buckets(layout, *compressor, {.skip_below = 1});
  const auto collective = make_scatter_reduce(comm, *compressor, plan, {});
  std::vector<float> gradient(count);
  GradientAveragingOptions options;
  options.run_seed = 4;
  options.lossy = true;
  const auto synchronizer = make_gradient_averaging(comm, *collective, nullptr, std::move(plan),
                                                    layout, gradient, options);
  Errors errors;
  for (int i = 0; i < steps; ++i) {
    const StepId step = static_cast<StepId>(i) * kVarianceEvery;
    synchronizer->begin(step, 0);
    std::ranges::copy(
        test::gaussian(
            count, {.run_seed = 4, .step = step, .rank = static_cast<std::uint32_t>(comm.rank())}),
        gradient.begin());
    synchronizer->slice_ready(0);
    SyncResult result = synchronizer->finish();
    EQT_CHECK(result.mean_sketch.has_value(), "no sketch in step {}", step);
    comm.allreduce_sum(std::span<double>(result.mean_sketch->exact));
    errors.measured += result.mean_sketch->relative_error(comm.size()).value_or(-1) / steps;
    errors.exact += error_of_mean(gradient, comm.size(), step) / steps;
    std::vector<double> own = {result.quantization_variance.value_or(0),
                               result.quantization_variance ? 1.0 : 0.0};
    comm.allreduce_sum(std::span<double>(own));
    errors.own += own[0];
    errors.own_count += static_cast<int>(own[1]);
  }
  if (errors.own_count > 0) errors.own /= errors.own_count;
  return errors;
}

}  // namespace

TEST_CASE("the error of the applied mean equals that of an oracle with all gradients", "[engine]") {
  comm::Communicator comm(test::session(), 30);
  // No more values than sums: the sketch is exact.
  const Errors few = errors_of_scatter_reduce(comm, 256, 3);
  CHECK(few.measured == Approx(few.exact).epsilon(1e-6));
  // More: relative deviation sqrt(2 / 256) a step, five standard errors of 64 steps and 1 % for the
  // quotient's bias.
  const Errors many = errors_of_scatter_reduce(comm, 65536, 64);
  CHECK(many.measured == Approx(many.exact).epsilon(5 * std::sqrt(2.0 / 256 / 64) + 0.01));
  if (comm.size() == 1) return;
  // Both quantisations: of n independent gradients with relative variance e each, (n-1)/n e/n of
  // |g|^2 on the way to the owner, who adds its own values exactly, and about e |mean|^2 back,
  // where |mean|^2 = |g|^2 / n. Relative to |mean|^2 together more than e (1 + (n-1)/n) less a
  // margin.
  const double n = comm.size();
  CHECK(many.exact > 0.9 * many.own * (1 + (n - 1) / n));
}

TEST_CASE("the chunk that a rank owns is not part of its message's error", "[engine]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 1) return;
  // Gaussian values in buckets of 64, levels 0, 1/3, 2/3, 1 of the largest, about 2.4: between two
  // levels that are d apart a value has the squared error p (1 - p) d^2 in the mean, at most d^2 /
  // 4 = 0.17 and about d^2 / 6 = 0.11 for most, whatever the number of ranks.
  const Errors errors = errors_of_scatter_reduce(comm, 65536, 16);
  CHECK(errors.own > 0.08);
  CHECK(errors.own < 0.17);
}
