// SPDX-License-Identifier: Apache-2.0
// PowerSGD's mean over ranks: the reference step, exactness, residuals, bytes, and that neither
// fusion buckets nor overlap change a bit.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "codec/catalogue.hpp"
#include "codec/low_rank/low_rank.hpp"
#include "collective/memory.hpp"
#include "collective/rank_order_mean.hpp"
#include "core/error.hpp"
#include "pipeline/engine.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/payload_bytes.hpp"
#include "support/saved_state.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

/// Convolutions and linear layers that are factored, biases and small ones that are not.
Layout test_layout() {
  return test::layout_of(
      {{16, 3, 3, 3}, {16}, {64, 40}, {64}, {130, 129}, {3, 700}, {1, 2000}, {10, 64}, {10}});
}

std::vector<FusionBucket> plan_of(const Layout& layout, std::size_t bucket_bytes) {
  return pipeline::plan_buckets(layout, *codec::make_compressor("powersgd"),
                                {.bucket_bytes = bucket_bytes});
}

std::vector<float> gradient_of(Rank rank, std::size_t count, StepId step = 0) {
  return test::gaussian(count,
                        {.run_seed = 5, .step = step, .rank = static_cast<std::uint32_t>(rank)});
}

std::vector<double> exact_mean(int ranks, std::size_t count) {
  std::vector<double> mean(count);
  for (Rank r = 0; r < ranks; ++r) {
    const auto g = gradient_of(r, count);
    for (std::size_t i = 0; i < count; ++i) mean[i] += double{g[i]} / ranks;
  }
  return mean;
}

bool is_factored(const TensorSlice& slice, std::size_t rank) {
  if (!pipeline::is_compressed(slice, 1024)) return false;
  const auto rows = static_cast<std::size_t>(slice.shape.front());
  return codec::factor_shape(slice.count, rows, rank).rank > 0;
}

Traffic run_step(comm::Communicator& comm, Collective& collective,
                 std::span<const FusionBucket> plan, std::span<float> values,
                 GradientMemory* memory = nullptr, StepId step = 0) {
  Traffic traffic;
  for (const FusionBucket& bucket : plan) {
    if (memory != nullptr) memory->compensate(bucket, values);
    const MeanResult result =
        mean_of(collective, comm, bucket, {.run_seed = 1, .step = step, .density = {}}, values);
    traffic += result.traffic;
    if (memory != nullptr) memory->remember(bucket, result.contribution);
  }
  return traffic;
}

std::vector<float> flattened(const nlohmann::json& matrix) {
  std::vector<float> values;
  for (const auto& row : matrix) {
    for (const auto& value : row) values.push_back(value.get<float>());
  }
  return values;
}

void check_reference_step(comm::Communicator& comm, const nlohmann::json& reference) {
  const auto& row = reference.at("powersgd_rank1_two_workers");
  const std::string mine = comm.rank() == 0 ? "M1" : "M2";
  auto values = flattened(row.at(mine));
  const Layout layout = {{"m", {3, 2}, 0, 6}};
  const auto plan = pipeline::plan_buckets(layout, *codec::make_compressor("powersgd"),
                                           {.skip_below = 1, .bucket_bytes = 1});
  const auto collective = make_power_sgd(comm, plan, {.rank = 1, .run_seed = 1});
  const auto q0 = row.at("Q0").get<std::vector<float>>();
  REQUIRE(test::state_of(*collective).size() == q0.size());
  std::copy(q0.begin(), q0.end(), test::state_of(*collective).begin());
  const auto memory = make_error_feedback(6);
  run_step(comm, *collective, plan, values, memory.get());
  const auto expected = flattened(row.at("M_hat"));
  const auto error = flattened(
      row.at("error_paper_style_M_i_minus_M_hat").at(static_cast<std::size_t>(comm.rank())));
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(values[i] == Approx(expected[i]).epsilon(1e-5));
    CHECK(test::state_of(*memory)[i] == Approx(error[i]).margin(1e-5));
  }
  for (std::size_t j = 0; j < 2; ++j) {
    CHECK(test::state_of(*collective)[j] ==
          Approx(row.at("Q_mean").at(j).get<double>()).epsilon(1e-5));
  }
}

/// Several steps with error feedback through the trainer's engine; the last mean.
std::vector<float> train_steps(comm::Communicator& comm, bool overlap, std::size_t bucket_bytes) {
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  auto plan = plan_of(layout, bucket_bytes);
  const auto collective = make_power_sgd(comm, plan, {.rank = 2, .run_seed = 3});
  const auto memory = make_error_feedback(count);
  std::vector<float> gradient(count);
  sync::GradientAveragingOptions options;
  options.overlap = overlap;
  options.lossy = true;
  const auto synchronizer = sync::make_gradient_averaging(
      comm, *collective, memory.get(), std::move(plan), layout, gradient, options);
  for (StepId step = 0; step < 5; ++step) {
    const auto fresh = gradient_of(comm.rank(), count, step);
    std::copy(fresh.begin(), fresh.end(), gradient.begin());
    synchronizer->begin(step, 0);
    for (std::size_t i = layout.size(); i-- > 0;) synchronizer->slice_ready(i);
    (void)synchronizer->finish();
  }
  return gradient;
}

}  // namespace

TEST_CASE("the reference step on two ranks", "[power_sgd][vectors]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() != 2) return;
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    REQUIRE(file);
    return nlohmann::json::parse(file);
  };
  check_reference_step(comm, read(EQT_SOURCE_DIR "/tests/codec/golden/vectors_low_rank.json"));
  if (const char* shared = std::getenv("EQT_SHARED")) {
    check_reference_step(comm, read(std::string(shared) + "/reference/vectors/vectors.json"));
  }
}

TEST_CASE("the mean in rank order has the same bits at any position of a value", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  RankOrderMean average;
  for (const std::size_t count : {0u, 1u, 2u, 3u, 4u, 5u, 1000u}) {
    auto values = gradient_of(comm.rank(), count);
    std::vector<float> expected(count);
    for (Rank r = 0; r < comm.size(); ++r) {
      const auto g = gradient_of(r, count);
      for (std::size_t i = 0; i < count; ++i) expected[i] = r == 0 ? g[i] : expected[i] + g[i];
    }
    for (float& v : expected) v *= 1.0f / static_cast<float>(comm.size());
    pipeline::complete(average(comm, values, {}), comm);
    CHECK(values == expected);
  }
}

TEST_CASE("factored tensors are projected, all others averaged exactly", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  const auto mean = exact_mean(comm.size(), count);
  const auto plan = plan_of(layout, 20000);
  const auto collective = make_power_sgd(comm, plan, {.rank = 3, .run_seed = 1});
  CHECK(collective->name() == "power-sgd");
  auto values = gradient_of(comm.rank(), count);
  const Traffic traffic = run_step(comm, *collective, plan, values);
  CHECK_NOTHROW(comm.require_same(test::hash_of(values), "mean"));
  CHECK_NOTHROW(comm.require_same(test::hash_of(test::state_of(*collective)), "Q"));
  std::size_t floats = 0, factored = 0;
  for (const TensorSlice& slice : layout) {
    double error = 0, norm = 0, captured = 0;
    for (std::size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
      error += (values[i] - mean[i]) * (values[i] - mean[i]);
      norm += mean[i] * mean[i];
      captured += double{values[i]} * values[i];
    }
    INFO(slice.name);
    if (is_factored(slice, 3)) {
      // It is a projection of the mean, so Pythagoras' theorem applies.
      CHECK(error + captured == Approx(norm).epsilon(1e-4));
      CHECK(error > 0.1 * norm);
      const auto rows = static_cast<std::size_t>(slice.shape.front());
      floats += 3 * (rows + slice.count / rows);
      ++factored;
    } else {
      CHECK(error <= 1e-12 * norm);
      floats += slice.count;
    }
  }
  CHECK(factored == 2);
  CHECK(traffic.encoded_bytes == 4 * floats);
  CHECK(traffic.encoded_values == count);
}

TEST_CASE("a mean of the factors' rank is recovered", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = {{"m", {60, 50}, 0, 3000}};
  const auto plan = plan_of(layout, 1);
  // Each rank its own outer product: the mean has as many as there are ranks, at most four.
  const codec::FactorShape one{60, 50, 1};
  std::vector<double> mean(3000);
  std::vector<float> values(3000);
  for (Rank r = comm.size(); r-- > 0;) {
    const auto p = gradient_of(r, 60, 1), q = gradient_of(r, 50, 2);
    std::vector<float> m(3000);
    codec::expand(p, q, one, m);
    for (std::size_t i = 0; i < m.size(); ++i) mean[i] += double{m[i]} / comm.size();
    if (r == comm.rank()) values = m;
  }
  const auto collective = make_power_sgd(comm, plan, {.rank = 4, .run_seed = 1});
  run_step(comm, *collective, plan, values);
  for (std::size_t i = 0; i < mean.size(); ++i) CHECK(std::abs(values[i] - mean[i]) < 1e-4);
}

TEST_CASE("warm start: repeated steps on one gradient find its best approximation", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = {{"m", {40, 60}, 0, 2400}};
  const auto plan = plan_of(layout, 1);
  const auto collective = make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
  const auto mean = exact_mean(comm.size(), 2400);
  double first = 0, previous = std::numeric_limits<double>::infinity();
  for (int step = 0; step < 40; ++step) {
    auto values = gradient_of(comm.rank(), 2400);
    run_step(comm, *collective, plan, values);
    double error = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      error += (values[i] - mean[i]) * (values[i] - mean[i]);
    }
    CHECK(error < previous * (1 + 1e-6));
    previous = error;
    if (step == 0) first = error;
  }
  CHECK(previous < 0.97 * first);
}

TEST_CASE("residuals of all ranks add up to the values that were not applied", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  const auto plan = plan_of(layout, 20000);
  const auto collective = make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
  const auto memory = make_error_feedback(count);
  std::vector<double> applied(count), mean(count);
  for (StepId step = 0; step < 6; ++step) {
    auto values = gradient_of(comm.rank(), count, step);
    for (std::size_t i = 0; i < count; ++i) mean[i] += double{values[i]} / comm.size();
    run_step(comm, *collective, plan, values, memory.get(), step);
    for (std::size_t i = 0; i < count; ++i) applied[i] += values[i];
  }
  std::vector<double> residual(test::state_of(*memory).begin(), test::state_of(*memory).end());
  for (double& e : residual) e /= comm.size();
  comm.allreduce_sum(residual);
  comm.allreduce_sum(mean);
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    worst = std::max(worst, std::abs(mean[i] - applied[i] - residual[i]));
  }
  CHECK(worst < 1e-4);
  for (const TensorSlice& slice : layout) {
    if (is_factored(slice, 2)) continue;
    for (std::size_t i = 0; i < slice.count; ++i)
      CHECK(test::state_of(*memory)[slice.offset + i] == 0);
  }
}

TEST_CASE("overlap and fusion buckets change no bit, for any number of ranks", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto plain = train_steps(comm, false, std::size_t{1} << 22);
  CHECK(train_steps(comm, true, std::size_t{1} << 22) == plain);
  CHECK(train_steps(comm, true, 20000) == plain);
  CHECK(train_steps(comm, false, 1) == plain);
}

TEST_CASE("the state does not depend on the fusion buckets", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  std::vector<std::vector<float>> states;
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 22}) {
    const auto plan = plan_of(layout, bucket_bytes);
    const auto collective = make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
    auto values = gradient_of(comm.rank(), total_count(layout));
    run_step(comm, *collective, plan, values);
    states.emplace_back(test::state_of(*collective).begin(), test::state_of(*collective).end());
  }
  CHECK(states[0] == states[1]);
}

TEST_CASE("sent bytes are the formula's", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto n = static_cast<std::uint64_t>(comm.size());
  // 60 x 60 at rank 2 in one message of 120 floats and one more: both divide by 1 ... 4 ranks.
  const Layout layout = {{"m", {60, 60}, 0, 3600}};
  const auto plan = plan_of(layout, 1);
  const auto collective = make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
  auto values = gradient_of(comm.rank(), 3600);
  const auto before = comm.byte_count();
  const Traffic traffic = run_step(comm, *collective, plan, values);
  const auto after = comm.byte_count();
  const std::uint64_t floats = 2 * (60 + 60);
  CHECK(traffic.encoded_bytes == 4 * floats);
  CHECK(test::payload_between(before, after).sent == 2 * 4 * floats * (n - 1) / n);
  CHECK(test::payload_between(before, after).received == 2 * 4 * floats * (n - 1) / n);
  CHECK(after.messages - before.messages == (n == 2 ? 2 : 4 * (n - 1)));
}

TEST_CASE("after a zero gradient, whose mean is zero, the next one is approximated again",
          "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = {{"m", {40, 60}, 0, 2400}};
  const auto plan = plan_of(layout, 1);
  const auto collective = make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
  std::vector<float> values(2400);
  run_step(comm, *collective, plan, values);
  CHECK(values == std::vector<float>(2400));
  for (int step = 0; step < 3; ++step) {
    values = gradient_of(comm.rank(), 2400);
    run_step(comm, *collective, plan, values);
  }
  double captured = 0, norm = 0;
  const auto mean = exact_mean(comm.size(), 2400);
  for (std::size_t i = 0; i < 2400; ++i) {
    captured += double{values[i]} * values[i];
    norm += mean[i] * mean[i];
  }
  CHECK(captured > 0.08 * norm);  // two of 40 directions, better than average
}

TEST_CASE("factors beyond float32 end the step on every rank", "[power_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = {{"m", {40, 60}, 0, 2400}};
  const auto plan = plan_of(layout, 1);
  const auto collective = make_power_sgd(comm, plan, {.rank = 2, .run_seed = 1});
  std::vector<float> values(2400, 3e38f);
  try {
    run_step(comm, *collective, plan, values);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::diverged);
  }
}

TEST_CASE("auto chooses power-sgd for powersgd alone", "[power_sgd]") {
  CHECK(choose_collective(*codec::make_compressor("powersgd"), 100000, 2).name == "power-sgd");
  CHECK(choose_collective(*codec::make_compressor("powersgd"), 100000, 8).name == "power-sgd");
  CHECK(choose_collective(*codec::make_compressor("atomo"), 100000, 8).name == "allgather");
}
