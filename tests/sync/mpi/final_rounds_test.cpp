// SPDX-License-Identifier: Apache-2.0
// Gossip without updates: ranks approach their mean, which does not change, and every byte is
// counted on its edge.

#include <cmath>
#include <memory>
#include <vector>

#include "codec/catalogue.hpp"
#include "core/checksum.hpp"
#include "pipeline/plan.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/mpi_world.hpp"
#include "support/number_replica.hpp"
#include "sync/edge_count.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "topology/spectrum.hpp"
#include "train/evaluator.hpp"

using namespace eqt;
using topology::GraphKind;
using train::Replicas;

namespace {

constexpr std::size_t kCount = 5000;

/// One rank that gossips, with a Gaussian model around 3.
struct Gossip {
  enum class Kind { plain, choco, squeeze };

  Gossip(comm::Communicator& of, std::unique_ptr<topology::Topology> graph, Kind kind,
         std::unique_ptr<codec::Compressor> codec, float gamma, bool with_push_sum = false,
         bool combine_first = false, StepId resync_every = 0)
      : comm(of),
        topology(std::move(graph)),
        compressor(std::move(codec)),
        replica(initial(of.rank()), {0, 0}),
        buckets(pipeline::plan_buckets(replica.layout(), *compressor,
                                       {.skip_below = 1, .bucket_bytes = 4096})),
        evaluator(of, replica, &set, Replicas::mixed) {
    const sync::MixerParts parts{of, *compressor, *topology, buckets};
    mixer = kind == Kind::plain ? sync::make_plain_mixer(parts)
            : kind == Kind::choco
                ? sync::make_choco_mixer(parts, kCount, {.resync_every = resync_every})
                : sync::make_squeeze_mixer(parts, kCount);
    if (with_push_sum) push_sum = std::make_unique<sync::PushSum>(*topology, of.rank(), kCount);
    synchronizer = sync::make_gossip_averaging(
        {.comm = of,
         .mixer = *mixer,
         .push_sum = push_sum.get(),
         .plan = buckets,
         .parameters = replica.parameters(),
         .gradient = replica.gradient()},
        {.run_seed = 3, .consensus_step = gamma, .combine_first = combine_first, .density = {}});
  }

  static std::vector<float> initial(Rank rank) {
    auto values = test::gaussian(kCount, {.run_seed = 2, .step = static_cast<std::uint64_t>(rank)});
    for (float& x : values) x += 3;
    return values;
  }

  Traffic mix(StepId rounds) {
    sync::SyncResult sum;
    for (StepId round = 0; round < rounds; ++round)
      sum.add(synchronizer->mixing()->mix_only(round, 0));
    return sum.traffic;
  }
  train::Consensus consensus() {
    return *evaluator.assess(false, synchronizer->mixing()->weight()).consensus;
  }
  /// sum_i w_i x_i over all ranks, which a round must keep.
  std::vector<double> mass() {
    const double weight = synchronizer->mixing()->weight();
    std::vector<double> sums(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      sums[i] = weight * static_cast<double>(replica.parameters()[i]);
    }
    comm.allreduce_sum(sums);
    return sums;
  }

  comm::Communicator& comm;
  const test::NumberSet set{10};
  std::unique_ptr<topology::Topology> topology;
  std::unique_ptr<codec::Compressor> compressor;
  test::NumberReplica replica;
  std::vector<pipeline::FusionBucket> buckets;
  std::unique_ptr<sync::Mixer> mixer;
  std::unique_ptr<sync::PushSum> push_sum;
  std::unique_ptr<sync::Synchronizer> synchronizer;
  train::Evaluator evaluator;
};

double relative_difference(std::span<const double> a, std::span<const double> b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return std::sqrt(difference / norm);
}

std::unique_ptr<topology::Topology> ring(int ranks, bool directed = false) {
  return topology::make_topology({.kind = GraphKind::ring, .directed = directed}, ranks);
}

/// A directed ring whose rank 0 also sends to rank 2: rows do not sum to 1.
std::unique_ptr<topology::Topology> ring_with_chord(int ranks) {
  topology::Graph graph{.ranks = ranks, .directed = true};
  for (Rank r = 0; r < ranks; ++r) graph.edges.push_back({r, (r + 1) % ranks});
  if (ranks > 2) graph.edges.push_back({0, 2});
  return topology::make_topology({.kind = GraphKind::graph, .graph = graph}, ranks);
}

}  // namespace

TEST_CASE("rounds of plain gossip contract as their matrix says and keep the mean",
          "[final-rounds]") {
  comm::Communicator comm(test::session(), 30);
  for (const bool combine_first : {false, true}) {
    Gossip g(comm, ring(comm.size()), Gossip::Kind::plain, codec::make_compressor("none"), 1, false,
             combine_first);
    const double contraction = topology::contraction(g.topology->at(0));
    const auto mass = g.mass();
    const double before = g.consensus().distance;
    constexpr StepId kRounds = 5;
    g.mix(kRounds);
    CHECK(relative_difference(mass, g.mass()) < 1e-6);
    // What is left over is rounding of 5000 values around 3.
    CHECK(g.consensus().distance <= std::pow(contraction, kRounds) * before + 1e-4);
    CHECK(before > 10);
  }
}

TEST_CASE("rounds of compressed gossip approach the mean and keep it", "[final-rounds]") {
  comm::Communicator comm(test::session(), 30);
  for (const auto kind : {Gossip::Kind::choco, Gossip::Kind::squeeze}) {
    const float gamma = kind == Gossip::Kind::choco ? 0.8f : 0.5f;
    Gossip g(comm, ring(comm.size()), kind, codec::make_compressor("int8", {.bucket_size = 512}),
             gamma);
    const auto mass = g.mass();
    const double before = g.consensus().distance;
    constexpr StepId kRounds = 40;
    g.mix(kRounds);
    // A round changes the mean only by rounding of a few float32 operations, each below 6e-8.
    CHECK(relative_difference(mass, g.mass()) < kRounds * 2.5e-7);
    CHECK(g.consensus().distance < before / 10);
  }
}

TEST_CASE("with push-sum the weighted mean does not change and is reached", "[final-rounds]") {
  comm::Communicator comm(test::session(), 30);
  Gossip g(comm, ring_with_chord(comm.size()), Gossip::Kind::plain, codec::make_compressor("none"),
           1, true);
  const auto mass = g.mass();
  const double before = g.consensus().distance;
  g.mix(3);
  if (comm.size() > 2) {
    std::vector<double> weight = {g.synchronizer->mixing()->weight()};
    comm.allreduce_sum(weight);
    CHECK(weight[0] == Approx(comm.size()));
    weight = {std::abs(g.synchronizer->mixing()->weight() - 1)};
    comm.allreduce_max(weight);
    CHECK(weight[0] > 0.01);
  }
  constexpr StepId kRounds = 200;
  g.mix(kRounds);
  CHECK(relative_difference(mass, g.mass()) < kRounds * 2.5e-7);
  CHECK(g.consensus().distance < before / 1000);
}

TEST_CASE("every byte of a round is counted on its edge", "[final-rounds]") {
  comm::Communicator comm(test::session(), 30);
  const int n = comm.size();
  for (const bool directed : {true, false}) {
    Gossip g(comm, ring(n, directed), Gossip::Kind::choco,
             codec::make_compressor("int8", {.bucket_size = 512}), 0.5);
    const Traffic traffic = g.mix(4);
    const auto sent = g.synchronizer->sent_bytes_by_peer();
    REQUIRE(sent.size() == static_cast<std::size_t>(n));
    std::vector<std::uint64_t> expected(sent.size());
    for (const topology::Neighbour& to : g.topology->at(0).out_neighbours(comm.rank())) {
      expected[static_cast<std::size_t>(to.rank)] =
          traffic.encoded_bytes + 4 * g.buckets.size() * kChecksumBytes;
    }
    CHECK(std::vector<std::uint64_t>(sent.begin(), sent.end()) == expected);
    std::uint64_t sum = 0;
    for (const auto& edge : sync::gather_edges(comm, sent)) {
      sum += edge.from == comm.rank() ? edge.bytes : 0;
    }
    CHECK(sum == traffic.sent_bytes);
    // A byte per value, a scale per 512 values, and frames.
    CHECK(traffic.encoded_bytes > 4 * kCount);
    CHECK(traffic.encoded_bytes < 4 * (kCount + kCount / 10));
    CHECK(traffic.encoded_values == 4 * kCount);
  }
}

TEST_CASE("renewed public copies are counted on edges, too", "[final-rounds]") {
  comm::Communicator comm(test::session(), 30);
  Gossip g(comm, ring(comm.size()), Gossip::Kind::choco,
           codec::make_compressor("int8", {.bucket_size = 512}), 0.5, false, false, 2);
  const Traffic traffic = g.mix(4);
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : g.synchronizer->sent_bytes_by_peer()) sum += bytes;
  CHECK(sum == traffic.sent_bytes);
  const auto neighbours = g.topology->at(0).out_neighbours(comm.rank()).size();
  // Two float32 copies of the model to each neighbour, and four messages.
  CHECK(sum >= 2 * neighbours * 4 * kCount);
}

TEST_CASE("algorithms without mixing have no rounds of gossip", "[final-rounds]") {
  sync::NoSynchronizer none;
  CHECK(none.mixing() == nullptr);
  CHECK(none.sent_bytes_by_peer().empty());
}
