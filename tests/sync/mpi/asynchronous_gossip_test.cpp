// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/asynchronous_gossip.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "codec/catalogue.hpp"
#include "support/blobs.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/mpi_world.hpp"
#include "support/record_log.hpp"
#include "support/topologies.hpp"
#include "support/toy_replica.hpp"
#include "train/trainer.hpp"

using namespace eqt;
using topology::GraphKind;

namespace {

constexpr double kTimeout = 40;

Layout layout() {
  return {{"a", {40, 50}, 0, 2000}, {"b", {50}, 2000, 50}, {"c", {30, 30}, 2050, 900}};
}
constexpr std::size_t kCount = 2950;

/// One rank's part of averaging in pairs, and its model.
class Pairs {
 public:
  Pairs(comm::Communicator& comm, const codec::Compressor& compressor, GraphKind kind,
        const Layout& of = layout())
      : comm_(comm),
        topology_(test::make(kind, comm.size())),
        plan_(pipeline::plan_buckets(of, compressor, {.skip_below = 64, .bucket_bytes = 4096})),
        parameters(total_count(of)),
        model_(plan_, parameters.size()),
        averaging_({comm, compressor, plan_, model_}, {.run_seed = 3}),
        role(sync::assign_role(*topology_, comm.rank())),
        synchronizer(sync::make_asynchronous_gossip({comm, averaging_, model_, plan_, parameters},
                                                    {.role = role,
                                                     .lossy = !compressor.properties().lossless,
                                                     .timeout_seconds = kTimeout,
                                                     .fault = {}})) {}

  /// The values of each rank.
  void draw(std::uint64_t seed) {
    const auto values = test::gaussian(
        parameters.size(), {.run_seed = seed, .rank = static_cast<std::uint32_t>(comm_.rank())});
    std::ranges::copy(values, parameters.begin());
  }

  /// Steps until all ranks together have taken `per_rank` steps per rank; `step` may change the
  /// parameters.
  template <typename Step>
  sync::SyncResult epoch(StepId per_rank, Step&& step) {
    goal_ += per_rank * static_cast<std::uint64_t>(comm_.size());
    sync::SyncResult sum;
    do {
      synchronizer->begin(own_steps, 0);
      step();
      sum.add(synchronizer->finish());
      sum.add(synchronizer->after_update(0));
      ++own_steps;
    } while (synchronizer->own_pace()->steps_of_all_ranks() < goal_);
    sum.add(synchronizer->own_pace()->end_epoch());
    return sum;
  }

  std::uint64_t goal() const { return goal_; }

 private:
  comm::Communicator& comm_;
  std::unique_ptr<topology::Topology> topology_;
  std::vector<pipeline::FusionBucket> plan_;

 public:
  std::vector<float> parameters;

 private:
  sync::SharedModel model_;
  sync::PairwiseAveraging averaging_;
  std::uint64_t goal_ = 0;

 public:
  sync::PairRole role;
  std::unique_ptr<sync::Synchronizer> synchronizer;
  StepId own_steps = 0;
};

void pause(std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

std::vector<double> sum_over_ranks(comm::Communicator& comm, const std::vector<float>& values) {
  std::vector<double> sums(values.begin(), values.end());
  comm.allreduce_sum(sums);
  return sums;
}

/// The largest distance of a value from its mean over ranks.
double spread(comm::Communicator& comm, const std::vector<float>& values) {
  const auto sums = sum_over_ranks(comm, values);
  std::vector<double> most(1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    most[0] = std::max(most[0], std::abs(static_cast<double>(values[i]) - sums[i] / comm.size()));
  }
  comm.allreduce_max(most);
  return most[0];
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// Bipartite graphs of this many ranks.
std::vector<GraphKind> graphs(int ranks) {
  std::vector<GraphKind> kinds = {GraphKind::star};
  if (ranks % 2 == 0 || ranks == 1) kinds.push_back(GraphKind::ring);
  if (ranks == 4) kinds.push_back(GraphKind::torus);
  if (ranks == 6) kinds.push_back(GraphKind::mesh);
  return kinds;
}

/// Averages until the distances are `target` of the initial ones, for a bounded number of steps.
/// @return true if they are
bool agree_within(comm::Communicator& comm, Pairs& pairs, double target) {
  const double first = spread(comm, pairs.parameters);
  for (int epoch = 0; epoch < 200; ++epoch) {
    if (spread(comm, pairs.parameters) <= target * first) return true;
    pairs.epoch(20, [] { pause(std::chrono::microseconds(100)); });
  }
  return false;
}

}  // namespace

TEST_CASE("pure averaging reaches the mean and keeps the sum", "[asynchronous]") {
  comm::Communicator comm(test::session(), kTimeout);
  struct Case {
    std::unique_ptr<codec::Compressor> compressor;
    double target;  // of the initial spread; 8 bits round to 1/127 of about 4 standard deviations
  };
  std::vector<Case> cases;
  cases.push_back({codec::make_compressor("none"), 1e-4});
  cases.push_back({codec::make_compressor("int8", {.bucket_size = 512}), 0.05});
  cases.push_back({codec::make_compressor("qsgd-v", {.bits = 8, .bucket_size = 512}), 0.1});
  for (const Case& one : cases) {
    for (const GraphKind kind : graphs(comm.size())) {
      Pairs pairs(comm, *one.compressor, kind);
      pairs.draw(5);
      const auto before = sum_over_ranks(comm, pairs.parameters);
      INFO(codec::codec_name(one.compressor->id()) << " on " << name_of(kind));
      CHECK(agree_within(comm, pairs, one.target));
      // Only rounding: 2^-24 of a value near 1 for each of some thousand exchanges.
      CHECK(largest_difference(before, sum_over_ranks(comm, pairs.parameters)) < 1e-3);
    }
  }
}

TEST_CASE("a biased compressor keeps the sum", "[asynchronous]") {
  comm::Communicator comm(test::session(), kTimeout);
  const auto topk = codec::make_compressor("topk", {.density = 0.1});
  Pairs pairs(comm, *topk, GraphKind::star);
  pairs.draw(6);
  const auto before = sum_over_ranks(comm, pairs.parameters);
  const sync::SyncResult result = pairs.epoch(50, [] { pause(std::chrono::microseconds(100)); });
  CHECK(largest_difference(before, sum_over_ranks(comm, pairs.parameters)) < 1e-3);
  if (comm.size() > 1) {
    CHECK(result.traffic.sent_bytes > 0);
    CHECK(result.traffic.encoded_bytes < result.traffic.encoded_values * 4);
    CHECK(result.quantization_variance.value() > 0.1);
  }
}

TEST_CASE("ranks of any speed share the steps of an epoch and wait at its end", "[asynchronous]") {
  comm::Communicator comm(test::session(), kTimeout);
  const auto none = codec::make_compressor("none");
  for (const GraphKind kind : graphs(comm.size())) {
    Pairs pairs(comm, *none, kind);
    const RandomStream random({.run_seed = 9, .rank = static_cast<std::uint32_t>(comm.rank())});
    std::uint32_t drawn = 0;
    for (int epoch = 0; epoch < 6; ++epoch) {
      const sync::SyncResult result = pairs.epoch(15, [&] {
        // One rank is slow, the others have very different speeds, some without any pause.
        const auto most = comm.rank() == 0 ? 3000u : 600u;
        const auto time = random.bounded(drawn++, most);
        if (time > most / 4) pause(std::chrono::microseconds(time));
      });
      const auto known = comm.allgather(pairs.synchronizer->own_pace()->steps_of_all_ranks());
      const auto steps = comm.allgather(pairs.own_steps);
      const auto all = std::accumulate(steps.begin(), steps.end(), std::uint64_t{0});
      CHECK(all >= pairs.goal());
      CHECK(*std::ranges::min_element(steps) >= static_cast<std::uint64_t>(epoch + 1));
      CHECK(std::ranges::count(known, all) == comm.size());
      CHECK(result.note.has_value() == (comm.rank() == 0));
      // Every sent byte is received.
      std::vector<double> bytes = {static_cast<double>(result.traffic.sent_bytes),
                                   static_cast<double>(result.traffic.received_bytes)};
      comm.allreduce_sum(bytes);
      CHECK(bytes[0] == bytes[1]);
    }
  }
}

TEST_CASE("updates during an exchange are kept", "[asynchronous]") {
  comm::Communicator comm(test::session(), kTimeout);
  const auto int8 = codec::make_compressor("int8", {.bucket_size = 512});
  Pairs pairs(comm, *int8, GraphKind::star);
  pairs.epoch(100, [&] {
    for (float& value : pairs.parameters) value += 0.25f;
  });
  const auto steps = comm.allgather(pairs.own_steps);
  const auto all = std::accumulate(steps.begin(), steps.end(), std::uint64_t{0});
  const std::vector<double> expected(kCount, 0.25 * static_cast<double>(all));
  // Relative to a sum of some hundred: rounding of float32.
  CHECK(largest_difference(expected, sum_over_ranks(comm, pairs.parameters)) <
        1e-4 * expected[0] + 1e-6);
}

TEST_CASE("quadratics with other minima on each rank meet near their mean by steps",
          "[asynchronous]") {
  comm::Communicator comm(test::session(), kTimeout);
  const auto none = codec::make_compressor("none");
  const double middle = (comm.size() - 1) / 2.0;
  for (const GraphKind kind : graphs(comm.size())) {
    Pairs pairs(comm, *none, kind);
    const auto minimum = static_cast<float>(comm.rank() - middle);
    pairs.epoch(200, [&] {
      for (float& value : pairs.parameters) value -= 0.03f * (value - minimum);
      pause(std::chrono::milliseconds(1));
    });
    const auto mean = sum_over_ranks(comm, pairs.parameters)[0] / comm.size();
    // A rank that takes more steps has a larger weight; on a busy machine, active ranks take fewer
    // steps.
    const auto steps = comm.allgather(pairs.own_steps);
    double pull = 0, all = 0;
    for (std::size_t rank = 0; rank < steps.size(); ++rank) {
      pull += static_cast<double>(steps[rank]) * (static_cast<double>(rank) - middle);
      all += static_cast<double>(steps[rank]);
    }
    INFO(name_of(kind) << ", " << pull / all << " by steps");
    // Alone a rank ends at its minimum, the outer ones `middle` away from 0.
    CHECK(std::abs(mean - pull / all) <= 0.5 * middle);
    CHECK(spread(comm, pairs.parameters) <= 0.5 * middle);
  }
}

TEST_CASE("the loop trains without a common step", "[asynchronous]") {
  comm::Communicator comm(test::session(), kTimeout);
  const test::Blobs blobs;
  const data::IidPartition partition(blobs.size(), comm.rank(), comm.size(), 1);
  train::Plan plan;
  plan.batch_size = 5;
  plan.steps_per_epoch = blobs.size() / static_cast<std::size_t>(comm.size()) / 5;
  plan.total_steps = 3 * plan.steps_per_epoch - 1;
  plan.replicas_equal = false;
  plan.asynchronous = true;
  data::BatchLoader loader(
      blobs, partition,
      {.batch_size = 5, .batches_per_epoch = plan.steps_per_epoch, .augment = false, .seed = 1});
  test::ToyReplica replica(12, 2, 1);
  const auto compressor = codec::make_compressor("int8", {.bucket_size = 512});
  const auto buckets = pipeline::plan_buckets(replica.layout(), *compressor, {.skip_below = 1});
  sync::SharedModel model(buckets, replica.parameters().size());
  sync::PairwiseAveraging averaging({comm, *compressor, buckets, model}, {});
  const auto topology = test::make(GraphKind::star, comm.size());
  const auto synchronizer =
      sync::make_asynchronous_gossip({comm, averaging, model, buckets, replica.parameters()},
                                     {.role = sync::assign_role(*topology, comm.rank()),
                                      .lossy = true,
                                      .timeout_seconds = kTimeout,
                                      .fault = {}});
  const auto optimizer = optim::make_sgd(replica.parameters().size(), {});
  const auto schedule = optim::make_schedule({.learning_rate = 0.02, .milestones = {}});
  test::RecordLog log;
  train::Trainer trainer({.comm = comm,
                          .replica = replica,
                          .batches = &loader,
                          .test_set = &blobs,
                          .optimizer = *optimizer,
                          .schedule = *schedule,
                          .synchronizer = *synchronizer,
                          .sink = log},
                         plan);
  const metrics::Summary summary = trainer.run();
  CHECK(summary.epochs == 3);
  CHECK(summary.steps >= plan.total_steps);
  CHECK(summary.test_accuracy.value() > 0.9);
  CHECK(!summary.replicas_identical);
  CHECK(summary.sent_bytes == summary.received_bytes);
  CHECK((summary.sent_bytes > 0) == (comm.size() > 1));
  CHECK(std::ssize(summary.replicas.node_test_accuracy) == comm.size());
  CHECK((summary.consensus_distance.value() > 0) == (comm.size() > 1));
  std::uint64_t over_edges = 0;
  for (const metrics::EdgeRecord& edge : summary.sent_bytes_by_edge) {
    CHECK((edge.from == 0) != (edge.to == 0));  // a star
    over_edges += edge.bytes;
  }
  CHECK(over_edges == summary.sent_bytes);
  if (comm.rank() != 0) return;
  REQUIRE(log.epochs.size() == 3);
  CHECK(log.epochs[1].step == 2 * plan.steps_per_epoch);
  CHECK(log.epochs[2].step == plan.total_steps);
  CHECK(log.notes.size() == 3);
  CHECK(std::ranges::is_sorted(log.steps, {}, &metrics::StepRecord::step));
  CHECK(log.steps.front().step >= 1);
  CHECK(log.steps.back().step <= plan.total_steps);
}
