// SPDX-License-Identifier: Apache-2.0
#include "train/batch_balancer.hpp"

#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"
#include "support/refusal.hpp"
#include "support/saved_state.hpp"

using namespace eqt;
using namespace eqt::train;

namespace {

BalanceOptions equal_batches(const comm::Communicator& comm, std::size_t batch, StepId every) {
  return {.batches = std::vector<std::size_t>(static_cast<std::size_t>(comm.size()), batch),
          .least = 2,
          .every = every};
}

std::size_t sum_of(const std::vector<std::size_t>& batches) {
  return std::accumulate(batches.begin(), batches.end(), std::size_t{0});
}

/// Trains `steps` steps on ranks whose sample takes `seconds_per_sample`. @return the decisions
std::vector<metrics::DecisionRecord> run(BatchBalancer& balancer, StepId from, StepId to,
                                         double seconds_per_sample, std::size_t total) {
  std::vector<metrics::DecisionRecord> decisions;
  for (StepId step = from; step < to; ++step) {
    balancer.note_step(seconds_per_sample * static_cast<double>(balancer.own()));
    const auto decision = balancer.decide(step + 1);
    REQUIRE(sum_of(balancer.batches()) == total);
    if (decision) decisions.push_back(*decision);
  }
  return decisions;
}

/// The last rank is four times slower than the others.
double uneven(const comm::Communicator& comm) {
  return comm.rank() + 1 == comm.size() ? 0.04 : 0.01;
}

}  // namespace

TEST_CASE("the slow rank gets fewer samples until all end together") {
  comm::Communicator comm(test::session(), 30);
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t total = 40 * ranks;
  BatchBalancer balancer(comm, equal_batches(comm, 40, 50));
  run(balancer, 0, 200, uneven(comm), total);
  // Exact shares: speed / speed of all.
  const double all = static_cast<double>(ranks - 1) + 0.25;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double share = (rank + 1 == ranks ? 0.25 : 1.0) / all * static_cast<double>(total);
    CHECK(std::abs(static_cast<double>(balancer.batches()[rank]) - share) <= 1 + 0.05 * share);
  }
}

TEST_CASE("ranks of one speed keep their batches") {
  comm::Communicator comm(test::session(), 30);
  const auto total = 40 * static_cast<std::size_t>(comm.size());
  BatchBalancer balancer(comm, equal_batches(comm, 40, 50));
  // Noise of 2 %, another one on each rank.
  const double seconds = 0.01 * (1 + 0.02 * (comm.rank() % 3 - 1));
  CHECK(run(balancer, 0, 300, seconds, total).empty());
}

TEST_CASE("a rank that becomes slower loses samples within one decision") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 1) return;
  const auto total = 40 * static_cast<std::size_t>(comm.size());
  BatchBalancer balancer(comm, equal_batches(comm, 40, 50));
  REQUIRE(run(balancer, 0, 200, 0.01, total).empty());
  const double slower = comm.rank() == 0 ? 0.02 : 0.01;
  const auto decisions = run(balancer, 200, 300, slower, total);
  REQUIRE_FALSE(decisions.empty());
  CHECK(decisions.front().step == 250);
  CHECK(balancer.batches().front() < 30);
}

TEST_CASE("shares follow each other and weights sum to the number of ranks") {
  comm::Communicator comm(test::session(), 30);
  const auto ranks = static_cast<std::size_t>(comm.size());
  BalanceOptions options = equal_batches(comm, 10, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) options.batches[rank] += 3 * rank;
  const BatchBalancer balancer(comm, options);
  const auto [together, share] = balancer.deal();
  CHECK(together == sum_of(options.batches));
  CHECK(share.end - share.begin == balancer.own());
  const auto begins = comm.allgather(share.begin), ends = comm.allgather(share.end);
  CHECK(begins.front() == 0);
  CHECK(ends.back() == sum_of(options.batches));
  for (std::size_t rank = 1; rank < ranks; ++rank) CHECK(begins[rank] == ends[rank - 1]);
  std::vector<double> sum = {balancer.weight()};
  comm.allreduce_sum(sum);
  CHECK(sum[0] == Approx(static_cast<double>(ranks)));
}

TEST_CASE("ranks with samples of their own take whole batches of them") {
  comm::Communicator comm(test::session(), 30);
  BalanceOptions options = equal_batches(comm, 10, 0);
  options.batches.front() = 4;
  options.own_samples = true;
  BatchBalancer balancer(comm, options);
  const data::BatchLoader::Deal own = {.batch_size = balancer.own(), .share = {0, balancer.own()}};
  CHECK(balancer.deal() == own);
  const auto ranks = static_cast<double>(comm.size());
  CHECK(balancer.weight() == Approx(ranks * static_cast<double>(balancer.own()) /
                                    static_cast<double>(sum_of(options.batches))));
  options.weighs = false;
  CHECK(BatchBalancer(comm, options).weight() == 1);
}

TEST_CASE("what was decided is repeated, whatever is measured") {
  comm::Communicator comm(test::session(), 30);
  const auto total = 40 * static_cast<std::size_t>(comm.size());
  BatchBalancer first(comm, equal_batches(comm, 40, 20));
  const auto decisions = run(first, 0, 100, uneven(comm), total);
  BalanceOptions options = equal_batches(comm, 40, 20);
  options.replay.emplace(decisions);
  BatchBalancer second(comm, options);
  const auto repeated = run(second, 0, 100, 0.01, total);
  REQUIRE(repeated.size() == decisions.size());
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    CHECK(repeated[i].step == decisions[i].step);
    CHECK(repeated[i].values == decisions[i].values);
  }
}

TEST_CASE("decisions of another run are refused") {
  comm::Communicator comm(test::session(), 30);
  const auto size = static_cast<std::size_t>(comm.size());
  for (const auto& values : {std::vector<double>(size + 1, 40), std::vector<double>(size, 41),
                             std::vector<double>(size, 39.5), std::vector<double>(size, -40)}) {
    BalanceOptions options = equal_batches(comm, 40, 20);
    options.replay.emplace(std::vector<metrics::DecisionRecord>{
        {.step = 3, .kind = kBatchDecisions, .values = values, .why = ""}});
    BatchBalancer balancer(comm, options);
    CHECK_THAT(test::refusal(Kind::data, [&] { balancer.decide(3); }),
               Catch::Matchers::ContainsSubstring("train.replay, step 3"));
  }
}

TEST_CASE("a restored balancer goes on as the saved one") {
  comm::Communicator comm(test::session(), 30);
  const auto total = 40 * static_cast<std::size_t>(comm.size());
  BatchBalancer undisturbed(comm, equal_batches(comm, 40, 20)),
      resumed(comm, equal_batches(comm, 40, 20));
  run(undisturbed, 0, 40, uneven(comm), total);
  test::copy_numbers(undisturbed, resumed);
  CHECK(resumed.batches() == undisturbed.batches());
  const double later = comm.rank() == 0 ? 0.03 : 0.01;
  const auto expected = run(undisturbed, 40, 120, later, total);
  const auto found = run(resumed, 40, 120, later, total);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i].values == expected[i].values);
}

TEST_CASE("a balancer that is restored for other samples begins with equal batches") {
  comm::Communicator comm(test::session(), 30);
  const auto ranks = static_cast<std::size_t>(comm.size());
  BatchBalancer saved(comm, equal_batches(comm, 40, 20));
  run(saved, 0, 40, uneven(comm), 40 * ranks);
  for (const std::size_t batch : {10u, 39u, 41u, 80u, 1000u}) {
    BatchBalancer resumed(comm, equal_batches(comm, batch, 20));
    test::copy_numbers(saved, resumed);
    CHECK(resumed.batches() == std::vector<std::size_t>(ranks, batch));
    CHECK(resumed.deal().batch_size == batch * ranks);
    run(resumed, 40, 80, uneven(comm), batch * ranks);
    if (ranks > 1) CHECK(resumed.batches().back() < batch);
  }
}
