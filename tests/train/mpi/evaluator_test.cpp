// SPDX-License-Identifier: Apache-2.0
#include "train/evaluator.hpp"

#include <xxhash.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/mpi_world.hpp"
#include "support/number_replica.hpp"
#include "sync/edge_count.hpp"

using namespace eqt;
using test::NumberReplica;
using test::NumberSet;
using train::Replicas;

namespace {

constexpr std::size_t kSamples = 1001;      // 143 of each of the labels 0 ... 6
constexpr double kLabelSum = 143.0 * 21.0;  // of all samples

/// Rank r: p = (r + 1, r), b = (10 r, 0.5): labels up to r are right.
NumberReplica replica_of(Rank r) {
  const auto x = static_cast<float>(r);
  return {{x + 1, x}, {10 * x, 0.5f}};
}

/// 0 + 1 + ... + (n - 1) over n.
double mean_rank(int n) { return (n - 1) / 2.0; }

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("nodes use their own model and buffers, the average uses the mean of both",
          "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const int n = comm.size();
  const NumberSet set(kSamples);
  NumberReplica replica = replica_of(comm.rank());
  train::Evaluator evaluator(comm, replica, &set, Replicas::mixed);
  const train::Assessment found = evaluator.assess(true, 1);

  REQUIRE(found.nodes.size() == static_cast<std::size_t>(n));
  for (Rank r = 0; r < n; ++r) {
    const model::Evaluation& node = found.nodes[static_cast<std::size_t>(r)];
    CHECK(node.count == kSamples);
    CHECK(node.sums[0] == 143 * (r + 1));
    CHECK(node.loss_sum == Approx((r + 1) * kLabelSum + 10.0 * r * kSamples));
  }
  REQUIRE(found.model.has_value());
  CHECK(found.averaged);
  CHECK(found.model->count == kSamples);
  CHECK(found.model->loss_sum ==
        Approx((mean_rank(n) + 1) * kLabelSum + 10 * mean_rank(n) * kSamples));
  // Labels below (n - 1) / 2 + 1/2 = n / 2 are right.
  CHECK(found.model->sums[0] == 143 * ((n + 1) / 2));
}

namespace {

/// Says p[0] of every sample, with the sums of a regression of its label.
class ConstantReplica final : public NumberReplica {
 public:
  using NumberReplica::NumberReplica;
  model::Evaluation evaluate(const data::Batch& batch) override {
    model::Evaluation sums{.sums = {0, 0, 0, 0}};
    for (const std::int64_t label : test::labels_in(batch)) {
      const auto y = static_cast<double>(label);
      const double error = static_cast<double>(parameters()[0]) - y;
      const std::array<double, 4> terms = {std::abs(error), error * error, y, y * y};
      for (std::size_t i = 0; i < terms.size(); ++i) sums.sums[i] += terms[i];
      sums.loss_sum += error * error;
      ++sums.count;
    }
    return sums;
  }
};

}  // namespace

TEST_CASE("metrics that follow from sums are those of the whole set", "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const model::Measures measures{.task = model::tasks::regression, .outputs = 1};
  const auto metrics_of = [&](std::size_t samples, float constant, Replicas replicas) {
    const NumberSet set(samples);
    ConstantReplica replica({constant, 0}, {0, 0});
    train::Evaluator evaluator(comm, replica, &set, replicas, nullptr, measures.sums());
    const train::Assessment found = evaluator.assess(true, 1);
    REQUIRE(found.model.has_value());
    std::vector<double> values;
    for (const metrics::MetricRecord& metric : measures.of(&*found.model))
      values.push_back(metric.value);
    for (const model::Evaluation& node : found.nodes)
      CHECK(measures.of(&node)[2].value == Approx(values[2]));
    return values;
  };
  for (const Replicas replicas : {Replicas::equal, Replicas::mixed}) {
    // The variance of 0 ... 6 is 4, the mean distance from their mean 12 / 7.
    const std::vector<double> mean = metrics_of(kSamples, 3, replicas);
    CHECK(mean[0] == Approx(4));
    CHECK(mean[1] == Approx(12.0 / 7));
    CHECK(mean[2] == Approx(0).margin(1e-12));
    CHECK(metrics_of(kSamples, 4, replicas)[2] == Approx(1 - 5.0 / 4));
    // Two samples, 0 and 1: with three ranks and more some have none.
    const std::vector<double> few = metrics_of(2, 0, replicas);
    CHECK(few[0] == Approx(0.5));
    CHECK(few[2] == Approx(-1));
  }
}

TEST_CASE("parameters and buffers are put back bit for bit", "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const NumberSet set(50);
  const auto rank = static_cast<std::uint64_t>(comm.rank());
  std::vector<float> parameters = test::gaussian(1003, {.run_seed = 5, .step = rank});
  parameters[7] = -0.0f;
  parameters[8] = 1e-42f;
  const std::vector<float> buffers = test::gaussian(31, {.run_seed = 6, .step = rank});
  NumberReplica replica(parameters, buffers);
  train::Evaluator evaluator(comm, replica, &set, Replicas::mixed);
  for (int epoch = 0; epoch < 2; ++epoch) {
    static_cast<void>(evaluator.assess(true, 1));
    CHECK(same_bits(replica.parameters(), parameters));
    CHECK(same_bits(replica.buffers(), buffers));
  }
}

TEST_CASE("the consensus distance is that of an arithmetic series", "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const int n = comm.size();
  constexpr std::size_t kCount = 100;
  NumberReplica replica(std::vector<float>(kCount, 8 + static_cast<float>(comm.rank())), {0, 0});
  const NumberSet set(10);
  train::Evaluator evaluator(comm, replica, &set, Replicas::mixed);
  const train::Assessment found = evaluator.assess(false, 1);
  CHECK_FALSE(found.model.has_value());
  CHECK(found.nodes.empty());
  REQUIRE(found.consensus.has_value());
  // The variance of 0 ... n - 1 is (n^2 - 1) / 12; every one of the values has it.
  const double distance = std::sqrt(static_cast<double>(kCount) * (n * n - 1) / 12);
  CHECK(found.consensus->distance == Approx(distance).margin(1e-9));
  CHECK(found.consensus->relative == Approx(distance / (10 * (8 + mean_rank(n)))).margin(1e-9));
  // The mean of 100 floats and a sum of squares by the ring formula, and nothing else.
  const auto ranks = static_cast<std::uint64_t>(n);
  CHECK(found.sent_bytes ==
        ranks * (2 * 4 * kCount * (ranks - 1) / ranks + 2 * 4 * 2 * (ranks - 1) / ranks +
                 2 * 8 * (ranks - 1) / ranks));
}

TEST_CASE("the mean weights models by their push-sum weight", "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const int n = comm.size();
  // Weights 2 (r + 1) / (n + 1) sum to n, and sum r (r + 1) over all ranks is (n-1) n (n+1) / 3.
  const double weight = 2.0 * (comm.rank() + 1) / (n + 1);
  const NumberSet set(kSamples);
  NumberReplica replica(std::vector<float>{static_cast<float>(comm.rank()), 0}, {0, 0});
  train::Evaluator evaluator(comm, replica, &set, Replicas::mixed);
  const train::Assessment found = evaluator.assess(true, weight);
  CHECK(found.model->loss_sum == Approx(2.0 * (n - 1) / 3 * kLabelSum).margin(1e-3));
  CHECK(found.nodes.back().loss_sum == Approx((n - 1) * kLabelSum));
}

TEST_CASE("equal replicas share the work with averaged buffers, and keep their own",
          "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const int n = comm.size();
  const NumberSet set(kSamples);
  const std::vector<float> parameters = {2, 3};
  const std::vector<float> buffers = {static_cast<float>(comm.rank()), 0};
  NumberReplica replica(parameters, buffers);
  train::Evaluator evaluator(comm, replica, &set, Replicas::equal);
  const train::Assessment found = evaluator.assess(true, 1);
  CHECK(found.model->count == kSamples);
  CHECK(found.model->sums[0] == 3 * 143);
  CHECK(found.model->loss_sum == Approx(2 * kLabelSum + mean_rank(n) * kSamples));
  CHECK(same_bits(replica.parameters(), parameters));
  CHECK(same_bits(replica.buffers(), buffers));
  CHECK(found.averaged_buffers == (n > 1 ? 2u : 0u));
  // What is kept as the best, and what the run leaves, is what was evaluated.
  const auto has_mean = [&] {
    CHECK(same_bits(replica.parameters(), parameters));
    CHECK(static_cast<double>(replica.buffers()[0]) == Approx(mean_rank(n)));
  };
  evaluator.with_result(has_mean);
  CHECK(same_bits(replica.buffers(), buffers));
  train::Evaluator(comm, replica, nullptr, Replicas::equal).adopt_mean(1);
  has_mean();
  CHECK(found.nodes.empty());
  CHECK_FALSE(found.consensus.has_value());
  CHECK(found.sent_bytes == 0);
  CHECK_FALSE(evaluator.assess(false, 1).model.has_value());
}

TEST_CASE("ranks that train alone evaluate their shares with their own models", "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const NumberSet set(kSamples);
  NumberReplica replica = replica_of(comm.rank());
  train::Evaluator evaluator(comm, replica, &set, Replicas::alone);
  const train::Assessment found = evaluator.assess(true, 1);
  double expected = 0;
  for (Rank r = 0; r < comm.size(); ++r) {
    const data::Range share = data::even_share(kSamples, r, comm.size());
    for (std::size_t i = share.begin; i < share.end; ++i) {
      expected += (r + 1) * static_cast<double>(i % 7) + 10.0 * r;
    }
  }
  CHECK(found.model->loss_sum == Approx(expected));
  CHECK_FALSE(found.averaged);
  CHECK(found.nodes.size() == static_cast<std::size_t>(comm.size()));
  CHECK(found.consensus.has_value());
  evaluator.adopt_mean(1);
  CHECK(same_bits(replica.parameters(), replica_of(comm.rank()).parameters()));
}

TEST_CASE("an adopted mean has the same bits on every rank", "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const auto n = static_cast<std::uint64_t>(comm.size());
  constexpr std::size_t kCount = 1003;
  std::vector<double> mean(kCount);
  for (std::uint64_t r = 0; r < n; ++r) {
    const auto of_rank = test::gaussian(kCount, {.run_seed = 9, .step = r});
    for (std::size_t i = 0; i < kCount; ++i) {
      mean[i] += static_cast<double>(of_rank[i]) / static_cast<double>(n);
    }
  }
  const auto rank = static_cast<std::uint64_t>(comm.rank());
  NumberReplica replica(test::gaussian(kCount, {.run_seed = 9, .step = rank}),
                        {static_cast<float>(rank), 0});
  train::Evaluator evaluator(comm, replica, nullptr, Replicas::mixed);
  evaluator.adopt_mean(1);
  const auto parameters = copy_of(replica.parameters());
  double worst = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(parameters[i]) - mean[i]));
  }
  CHECK(worst < 1e-6);
  CHECK(static_cast<double>(replica.buffers()[0]) == Approx(mean_rank(comm.size())));
  comm.require_same(XXH3_64bits(parameters.data(), kCount * sizeof(float)), "mean model");
}

TEST_CASE("edges count point-to-point bytes between open and close", "[evaluator]") {
  comm::Communicator comm(test::session(), 30);
  const int n = comm.size();
  const Rank me = comm.rank(), next = (me + 1) % n, before = (me + n - 1) % n;
  const auto send = [&](std::size_t count) {
    const std::vector<std::byte> out(count);
    std::vector<std::byte> buffer(1000);
    if (n == 1) return;
    const comm::Outgoing outgoing[] = {{next, out}};
    comm::Incoming incoming[] = {{before, buffer, 0}};
    comm.exchange(outgoing, incoming, "a message to the next rank");
  };
  sync::EdgeCount edges(comm);
  Traffic traffic;
  send(17);  // not counted
  for (int i = 0; i < 2; ++i) {
    edges.open();
    send(static_cast<std::size_t>(100 + me));
    edges.close(traffic);
    send(17);
  }
  const auto all = sync::gather_edges(comm, edges.sent());
  CHECK(sync::gather_edges(comm, {}).empty());
  CHECK(traffic.sent_bytes ==
        (n == 1 ? 0u : 2 * static_cast<std::uint64_t>(100 + me + 8)));  // and a checksum
  std::vector<metrics::EdgeRecord> expected;
  for (Rank r = 0; r < n && n > 1; ++r) {
    expected.push_back({r, (r + 1) % n, 2 * static_cast<std::uint64_t>(100 + r + 8)});
  }
  CHECK(all == expected);
}
