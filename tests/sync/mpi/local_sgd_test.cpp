// SPDX-License-Identifier: Apache-2.0
// Local SGD through the trainer, compared with a simulation of all its ranks in one process.

#include "sync/local_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "support/catch.hpp"
#include "support/local_sgd_case.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using namespace eqt::test::local_sgd;

namespace {

/// Algorithm 1 of Stich 2019 for all ranks in one process: the models themselves are averaged.
std::vector<float> simulate(int ranks, const Settings& settings) {
  const test::Blobs blobs;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int r = 0; r < ranks; ++r)
    nodes.push_back(std::make_unique<Node>(blobs, r, ranks, settings));
  const auto schedule = falling_rate();
  std::vector<float> start(nodes[0]->replica.parameters().begin(),
                           nodes[0]->replica.parameters().end());
  float rates = 0;
  for (StepId step = 0; step < settings.plan.total_steps; ++step) {
    const float rate = schedule->rate(step);
    rates += rate;
    for (const auto& node : nodes) {
      (void)node->replica.forward_backward(node->loader.next(), [](std::size_t) {});
      const auto model = node->replica.parameters(), gradient = node->replica.gradient();
      if (node->direction) node->direction->direct(model, gradient);
      node->optimizer->step(model, gradient, rate);
    }
    if (!settings.plan.averages_after(step)) continue;
    std::vector<float> mean(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      double sum = 0;
      for (const auto& node : nodes) sum += static_cast<double>(node->replica.parameters()[i]);
      mean[i] = static_cast<float>(sum / ranks);
    }
    for (const auto& node : nodes) {
      std::ranges::copy(mean, node->replica.parameters().begin());
      if (node->direction) node->direction->observe(start, mean, rates);
    }
    start = mean;
    rates = 0;
  }
  return start;
}

}  // namespace

TEST_CASE("averages before a step equal those after the step before it", "[local_sgd]") {
  for (const StepId every : {1u, 2u, 3u, 8u}) {
    for (const StepId dense : {0u, 1u, 5u, 16u}) {
      const sync::LocalSgdPlan plan{.local_steps = every, .dense_steps = dense, .total_steps = 21};
      CAPTURE(every, dense);
      StepId count = 0;
      for (StepId step = 0; step < plan.total_steps; ++step) {
        CHECK(plan.averages_before(step) == count);
        count += plan.averages_after(step);
      }
      CHECK(plan.averages_after(20));
      CHECK(count == std::min<StepId>(dense, 21) + (21 - dense + every - 1) / every);
    }
  }
}

TEST_CASE("models averaged in every step are synchronous SGD, momentum included", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  const Settings settings{.plan = {.local_steps = 1, .total_steps = 20}};
  const Result local = train_toy(comm, *none, settings);
  const Result synchronous = train_toy(comm, *none, settings, false);
  CHECK(largest_difference(local.parameters, synchronous.parameters) < 2e-6);
  CHECK(local.log.steps.size() == synchronous.log.steps.size());
  for (std::size_t i = 0; i < local.log.steps.size(); ++i) {
    CHECK(local.log.steps[i].dense_bytes == synchronous.log.steps[i].dense_bytes);
    CHECK(local.log.steps[i].sent_bytes == synchronous.log.steps[i].sent_bytes);
  }
  // The parameters have changed.
  const Settings alone{.plan = {.local_steps = 20, .total_steps = 20}};
  const double apart =
      largest_difference(train_toy(comm, *none, alone).parameters, synchronous.parameters);
  CHECK((comm.size() == 1 || apart > 1e-4));
}

TEST_CASE("periodic and post-local averaging follow a simulation of all ranks", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  for (const bool quasi_global : {false, true}) {
    for (const StepId dense : {0u, 7u}) {
      const Settings settings{.plan = {.local_steps = 4, .dense_steps = dense, .total_steps = 18},
                              .quasi_global = quasi_global};
      CAPTURE(quasi_global, dense);
      const Result result = train_toy(comm, *none, settings);
      CHECK(largest_difference(result.parameters, simulate(comm.size(), settings)) < 2e-6);
      CHECK(result.summary.replicas_identical.value());
    }
  }
}

TEST_CASE("only steps that average send, and count as dense", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  const sync::LocalSgdPlan plan{.local_steps = 4, .dense_steps = 3, .total_steps = 18};
  const Result result = train_toy(comm, *none, {.plan = plan});
  // After steps 1, 2 and 3, then 7, 11, 15, and the last.
  const std::vector<StepId> due = {1, 2, 3, 7, 11, 15, 18};
  const auto others = static_cast<std::uint64_t>(comm.size()) - 1;
  if (comm.rank() != 0) return;
  CHECK(result.log.steps.size() == 18);
  for (const metrics::StepRecord& record : result.log.steps) {
    const bool averages = std::ranges::count(due, record.step) == 1;
    CAPTURE(record.step);
    CHECK(record.dense_bytes == (averages ? 8 * kValues * others : 0));
    CHECK((record.sent_bytes > 0) == (averages && others > 0));
  }
}

TEST_CASE("compressed differences of models learn, equal on all ranks", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const Settings settings{.plan = {.local_steps = 2, .total_steps = 40}};
  const auto coarse = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  const auto sparse = codec::make_compressor("topk", {.density = 0.1});
  for (const codec::Compressor* compressor : {coarse.get(), sparse.get()}) {
    CAPTURE(codec::codec_name(compressor->id()));
    const Result result = train_toy(comm, *compressor, settings);
    CHECK(result.summary.test_accuracy.value() > 0.95);
    CHECK(result.summary.replicas_identical.value());
  }
}

TEST_CASE("late averages and outer steps follow a simulation of all ranks", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  using Delay = std::optional<StepId>;
  for (const Delay delay : {Delay(0), Delay(1), Delay(3), Delay(4), Delay()}) {
    for (const sync::OuterStep outer :
         {sync::OuterStep{}, sync::OuterStep{.learning_rate = 0.7f, .momentum = 0.5f},
          sync::OuterStep{.learning_rate = 0.7f, .momentum = 0.5f, .by_rate = true},
          sync::OuterStep{.learning_rate = 0.7f, .momentum = 0.9f, .nesterov = true}}) {
      for (const bool overlap : {false, true}) {
        const Settings settings{.plan = {.local_steps = 4, .total_steps = 18, .delay = delay},
                                .outer = outer,
                                .overlap = overlap};
        CAPTURE(delay.value_or(99), outer.momentum, overlap);
        const Result result = train_toy(comm, *none, settings);
        CHECK(largest_difference(result.parameters, simulate_late(comm.size(), settings)) < 4e-6);
        CHECK(result.summary.replicas_identical.value());
      }
    }
  }
}

TEST_CASE("a delay of auto is half of the next round, rounded up", "[local_sgd]") {
  for (const StepId every : {1u, 2u, 3u, 8u}) {
    const sync::LocalSgdPlan plan{.local_steps = every, .total_steps = 100, .delay = {}};
    for (StepId step = every; step < 99; ++step)
      CHECK(plan.merges_after(step, every - 1) == (step == every - 1 + (every + 1) / 2));
    CHECK(plan.merges_after(99, every - 1));  // the run's last step applies all
  }
  // Rounds that end with the steps 1, 4 and 10, and the run with 19.
  const sync::LocalSgdPlan plan{.total_steps = 20, .delay = {}, .ends = {1, 4, 10}};
  CHECK(plan.merges_after(3, 1));    // 3 steps: 2 of them
  CHECK(plan.merges_after(7, 4));    // 6: 3
  CHECK(plan.merges_after(15, 10));  // 9: 5
  CHECK_FALSE(plan.merges_after(4, 1));
  CHECK_FALSE(plan.merges_after(10, 4));
  // A run that goes on with these rounds may have been longer on its way than they are.
  CHECK_FALSE(plan.is_overdue(3, 1));
  CHECK(plan.is_overdue(4, 1));
}

TEST_CASE("SlowMo's step is divided by the rate of its round", "[local_sgd]") {
  // A direction of 1 in rounds whose rate falls from 0.1 to 0.0001: u = 1, 1.5, 1.75, and the step
  // is alpha gamma u (Wang et al. 2020, algorithm 1). Undivided, the last one would be 172 times as
  // large: 0.25 * 0.1 + 0.5 * 0.01 + 0.0001 in place of 0.000175.
  sync::OuterStep outer{.learning_rate = 2, .momentum = 0.5f, .by_rate = true};
  float u = 0;
  CHECK(outer.of(0.1f, u, 0.1f) == Approx(2 * 0.1 * 1));
  CHECK(outer.of(0.01f, u, 0.01f) == Approx(2 * 0.01 * 1.5));
  CHECK(outer.of(0.0001f, u, 0.0001f) == Approx(2 * 0.0001 * 1.75));
  CHECK(outer.of(0, u, 0) == 0);  // nothing has moved
  CHECK(u == Approx(0.875));
  outer.by_rate = false;
  float z = 0;
  (void)outer.of(0.1f, z, 0.1f);
  (void)outer.of(0.01f, z, 0.01f);
  CHECK(outer.of(0.0001f, z, 0.0001f) == Approx(2 * (0.25 * 0.1 + 0.5 * 0.01 + 0.0001)));
}

TEST_CASE("a late average has the same bits with and without overlap", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto sparse = codec::make_compressor("topk", {.density = 0.1});
  const auto coarse = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  for (const codec::Compressor* compressor : {sparse.get(), coarse.get()}) {
    Settings settings{.plan = {.local_steps = 3, .total_steps = 31, .delay = StepId{2}}};
    const Result waiting = train_toy(comm, *compressor, settings);
    settings.overlap = true;
    const Result overlapped = train_toy(comm, *compressor, settings);
    CHECK(waiting.parameters == overlapped.parameters);
    CHECK(waiting.summary.sent_bytes == overlapped.summary.sent_bytes);
  }
}

TEST_CASE("late averages of one rank alone change nothing", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() != 1) return;
  const auto none = codec::make_compressor("none");
  const Settings alone{.plan = {.local_steps = 18, .total_steps = 18}};
  const Settings late{.plan = {.local_steps = 4, .total_steps = 18, .delay = StepId{3}}};
  CHECK(largest_difference(train_toy(comm, *none, late).parameters,
                           train_toy(comm, *none, alone).parameters) < 1e-6);
}

TEST_CASE("each late average counts as dense in the step that applies it", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  const sync::LocalSgdPlan plan{.local_steps = 4, .total_steps = 18, .delay = StepId{3}};
  const Result result = train_toy(comm, *none, {.plan = plan, .overlap = true});
  const auto others = static_cast<std::uint64_t>(comm.size()) - 1;
  if (comm.rank() != 0) return;
  for (const metrics::StepRecord& record : result.log.steps) {
    // Sent after steps 4, 8, 12 and 16; the last of them comes with that of the last step.
    const std::uint64_t rounds = record.step == 18                         ? 2
                                 : record.step % 4 == 3 && record.step > 4 ? 1
                                                                           : 0;
    CAPTURE(record.step);
    CHECK(record.dense_bytes == rounds * 8 * kValues * others);
    CHECK((record.sent_bytes > 0) == (rounds > 0 && others > 0));
  }
}

TEST_CASE("rounds of the quadratic rule grow as the learning rate falls", "[local_sgd]") {
  const auto schedule = [](Entry<optim::ScheduleRow> kind, double warmup) {
    const std::shared_ptr<optim::Schedule> made = optim::make_schedule({.kind = kind,
                                                                        .learning_rate = 0.8,
                                                                        .milestones = {1, 2},
                                                                        .factor = 0.5,
                                                                        .warmup_epochs = warmup,
                                                                        .steps_per_epoch = 10,
                                                                        .total_steps = 30});
    return [made](StepId position) { return made->rate(position); };
  };
  const sync::QuadraticRule rule{.least = 2, .most = 5, .alpha = 0.8};
  using Ends = std::vector<StepId>;
  // Rates 0.8, 0.4 and 0.2: (0.8 / rate)^2 is 1, 4 and 16, so rounds have 2, 4 and 5 steps.
  const auto falling = schedule(optim::kStep, 0);
  CHECK(sync::quadratic_round_ends(rule, falling, 30, 0, 0) ==
        Ends{1, 3, 5, 7, 9, 13, 17, 21, 26, 29});
  // A warm-up has the rounds of the rate after it.
  const auto warm = schedule(optim::kStep, 0.8);
  CHECK(sync::quadratic_round_ends(rule, warm, 12, 0, 8) == Ends{1, 3, 5, 7, 9, 11});
  // With another position in the data: step 0 is position 10.
  CHECK(sync::quadratic_round_ends(rule, falling, 10, 10, 0) == Ends{3, 7, 9});
  const auto cosine = schedule(optim::kCosine, 0);
  sync::LocalSgdPlan plan{.total_steps = 30};
  plan.ends = sync::quadratic_round_ends(rule, cosine, 30, 0, 0);
  StepId count = 0, before = 0;
  for (StepId step = 0; step < 30; ++step) {
    CHECK(plan.averages_before(step) == count);
    if (!plan.averages_after(step)) continue;
    ++count;
    const double wanted = std::pow(0.8 / static_cast<double>(cosine(before)), 2);
    CHECK(step + 1 - before ==
          std::min<StepId>(30 - before, static_cast<StepId>(std::clamp(wanted, 2.0, 5.0))));
    before = step + 1;
  }
  CHECK(before == 30);
}

TEST_CASE("a model that is no longer finite is named with its rank and step", "[local_sgd]") {
  comm::Communicator comm(test::session(), 30);
  const auto none = codec::make_compressor("none");
  test::ToyReplica replica(12, 2, 1);
  auto buckets = pipeline::plan_buckets(replica.layout(), *none, {});
  const auto collective = collective::make_allgather(comm, *none, buckets);
  sync::GradientAveragingOptions options;
  options.overlap = false;
  const auto synchronizer = sync::make_local_sgd(
      {.comm = comm,
       .mean = sync::make_fragment_averaging(comm, *collective, nullptr, std::move(buckets), 1,
                                             replica.layout(), replica.gradient(), options),
       .parameters = replica.parameters(),
       .gradient = replica.gradient(),
       .difference = replica.gradient(),
       .layout = replica.layout()},
      {.local_steps = 1, .total_steps = 2});
  synchronizer->begin(0, 0);
  (void)synchronizer->finish();
  replica.parameters()[5] = std::numeric_limits<float>::infinity();
  CHECK_THROWS_WITH(synchronizer->after_update(0.1f),
                    Catch::Matchers::ContainsSubstring("step 0: the model's change of") &&
                        Catch::Matchers::ContainsSubstring("inf at index 5 on rank"));
}
