// SPDX-License-Identifier: Apache-2.0
// Algorithms that must give equal results: as others, as SGD, or as themselves with other settings.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "data/partition.hpp"
#include "support/blobs.hpp"
#include "support/catch.hpp"
#include "support/gossip_cases.hpp"
#include "support/gossip_rank.hpp"
#include "support/mpi_world.hpp"
#include "support/toy_replica.hpp"
#include "train/trainer.hpp"

using namespace eqt;
using namespace eqt::test;

namespace {

/// The model after some steps on this rank's quadratic.
std::vector<float> train_quadratic(comm::Communicator& comm, const GossipScheme& scheme,
                                   const GossipSettings& settings,
                                   const topology::Topology& topology,
                                   const codec::Compressor& compressor, const Layout& layout,
                                   const GossipSetup& setup) {
  const std::size_t count = total_count(layout);
  const Quadratic loss = quadratic_of(count, static_cast<std::size_t>(comm.rank()));
  GossipRank rank(comm, scheme, settings, topology, compressor, layout, setup);
  for (int step = 0; step < 6; ++step) {
    rank.step(0.1f, [&](auto z, auto g) { gradient_at(loss, z, g); });
  }
  return {rank.parameters().begin(), rank.parameters().end()};
}

float largest_difference(std::span<const float> a, std::span<const float> b) {
  float most = 0;
  for (std::size_t k = 0; k < a.size(); ++k) most = std::max(most, std::abs(a[k] - b[k]));
  return most;
}

/// Rounds weights as int8-channels does, and remembers which model the messages are of.
class Rounding final : public WeightRounding {
 public:
  explicit Rounding(const Layout& layout) : layout_(layout) {}

  std::optional<RoundedRows> round(std::size_t slice, std::span<const float> values) override {
    if (slice == kFloats) return {};
    ++rounded;
    const auto rows = static_cast<std::size_t>(layout_[slice].shape.front());
    const std::size_t columns = values.size() / rows;
    const auto codec = codec::make_compressor("int8", {.bucket_size = columns});
    std::vector<std::byte> payload(codec->max_payload_bytes(values.size()));
    Workspace workspace;
    (void)codec->encode(values, {}, workspace, payload);
    Slice& to = slices_[slice];
    to.scales.resize(rows);
    to.values.resize(values.size());
    for (std::size_t r = 0; r < rows; ++r) {
      const std::byte* const row = payload.data() + r * (columns + sizeof(float));
      std::memcpy(&to.scales[r], row, sizeof(float));
      std::memcpy(&to.values[r * columns], row + sizeof(float), columns);
    }
    return RoundedRows{to.values, to.scales};
  }
  void release() override { ++released; }

  static constexpr std::size_t kFloats = 2;  // of the layout: not rounded by the network
  int rounded = 0, released = 0;

 private:
  struct Slice {
    std::vector<std::int8_t> values;
    std::vector<float> scales;
  };
  const Layout layout_;
  std::map<std::size_t, Slice> slices_;
};

struct Nothing final : metrics::Sink {};

/// Six steps of the real trainer, whose batches on all ranks together are the whole set.
std::vector<float> train_on_blobs(comm::Communicator& comm, const topology::Topology& topology) {
  const Blobs blobs;
  const std::size_t batch_size = blobs.size() / static_cast<std::size_t>(comm.size());
  const data::IidPartition partition(blobs.size(), comm.rank(), comm.size(), 1);
  data::BatchLoader loader(
      blobs, partition,
      {.batch_size = batch_size, .batches_per_epoch = 1, .augment = false, .seed = 1});
  ToyReplica replica(12, 2, 1 + static_cast<std::uint64_t>(comm.rank()));  // rank 0's counts
  const auto none = codec::make_compressor("none");
  const auto plan = pipeline::plan_buckets(replica.layout(), *none, {});
  const auto mixer = sync::make_plain_mixer({comm, *none, topology, plan});
  const auto synchronizer = sync::make_gossip_averaging({.comm = comm,
                                                         .mixer = *mixer,
                                                         .plan = plan,
                                                         .parameters = replica.parameters(),
                                                         .gradient = replica.gradient()},
                                                        {.density = {}});
  const auto optimizer =
      optim::make_sgd(replica.parameters().size(), {.momentum = 0, .momentum_corrected = {}});
  const auto schedule = optim::make_schedule({.learning_rate = 0.02, .milestones = {}});
  Nothing sink;
  train::Plan steps;
  steps.total_steps = 6;
  steps.batch_size = static_cast<double>(batch_size);
  steps.replicas_equal = false;
  (void)train::Trainer({.comm = comm,
                        .replica = replica,
                        .batches = &loader,
                        .test_set = &blobs,
                        .optimizer = *optimizer,
                        .schedule = *schedule,
                        .synchronizer = *synchronizer,
                        .sink = sink},
                       steps)
      .run();
  return {replica.parameters().begin(), replica.parameters().end()};
}

/// Six steps on the whole set, one process.
std::vector<float> train_alone() {
  const Blobs blobs;
  ToyReplica alone(12, 2, 1);
  std::vector<std::size_t> all(blobs.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  data::Batch batch;
  blobs.read(all, {}, batch);
  for (int step = 0; step < 6; ++step) {
    (void)alone.forward_backward(batch, [](std::size_t) {});
    for (std::size_t k = 0; k < alone.parameters().size(); ++k) {
      alone.parameters()[k] -= 0.02f * alone.gradient()[k];
    }
  }
  return {alone.parameters().begin(), alone.parameters().end()};
}

}  // namespace

TEST_CASE("CHOCO and DeepSqueeze without compression and with gamma 1 are D-PSGD", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const auto none = codec::make_compressor("none");
  GossipScheme scheme = scheme_named("d-psgd");
  for (const NamedTopology& topology : all_topologies(comm.size())) {
    if (!topology.doubly_stochastic || !topology.made->is_static()) continue;
    const auto train_with = [&](Mixing mixing) {
      scheme.mixing = mixing;
      return train_quadratic(comm, scheme, {}, *topology.made, *none, gossip_layout(),
                             {.plan = gossip_plan()});
    };
    const auto plain = train_with(Mixing::plain);
    INFO(topology.name);
    CHECK(largest_difference(train_with(Mixing::choco), plain) < 2e-6f);
    CHECK(largest_difference(train_with(Mixing::squeeze), plain) < 2e-6f);
  }
}

TEST_CASE("on a complete graph D-PSGD is SGD on the batches of all ranks", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const auto alone = train_alone();
  const auto complete = make(topology::GraphKind::complete, comm.size());
  CHECK(largest_difference(train_on_blobs(comm, *complete), alone) < 1e-6f);
  // On a sparser graph, with more ranks, it is not.
  if (comm.size() < 4) return;
  const auto ring = make(topology::GraphKind::ring, comm.size());
  CHECK(largest_difference(train_on_blobs(comm, *ring), alone) > 1e-5f);
}

TEST_CASE("overlap and fusion buckets change no bit", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const Layout layout = layout_of({{64, 300}, {300}, {100, 100}, {10}});
  const auto topologies = all_topologies(comm.size());
  for (const auto& [name, compressor] : all_compressors()) {
    if (name != "none" && name != "qsgd" && name != "topk" && name != "int8") continue;
    for (const GossipScheme& scheme : all_schemes()) {
      for (const NamedTopology& topology : topologies) {
        if (topology.name != "one-peer-exponential" && topology.name != "ring") continue;
        if (!fits(scheme, topology)) continue;
        const auto train_with = [&](const GossipSetup& setup) {
          return train_quadratic(comm, scheme, {.gamma = 0.5, .damping = 0.75}, *topology.made,
                                 *compressor, layout, setup);
        };
        INFO(scheme.name << " on " << topology.name << " with " << name);
        const auto plain = train_with({});
        CHECK(train_with({.plan = {.bucket_bytes = 1}, .overlap = true}) == plain);
        CHECK(train_with({.plan = {.bucket_bytes = 50000, .split_bytes = 33000}}) == plain);
      }
    }
  }
}

TEST_CASE("a network's own rounded weights are DeepSqueeze's messages", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const Layout layout = layout_of({{64, 300}, {300}, {100, 100}, {10}});
  const auto codec = codec::make_compressor("int8-channels");
  const auto ring = make(topology::GraphKind::ring, comm.size());
  GossipScheme scheme = scheme_named("d-psgd");
  scheme.mixing = Mixing::squeeze;
  scheme.combine_first = true;
  const GossipSettings settings = {.gamma = 0.5};
  const auto plain = train_quadratic(comm, scheme, settings, *ring, *codec, layout, {});
  for (const bool overlap : {false, true}) {
    Rounding network(layout);
    const GossipSetup setup = {
        .plan = {.bucket_bytes = 50000}, .overlap = overlap, .mixer = {.network = &network}};
    CHECK(train_quadratic(comm, scheme, settings, *ring, *codec, layout, setup) == plain);
    CHECK(network.rounded == 6);  // one of two weight tensors in each step
    CHECK(network.released == 6);
  }
}

TEST_CASE("one node's quasi-global momentum is SGD with an averaged momentum", "[gossip]") {
  comm::Communicator comm(session(), 30);
  if (comm.size() > 1) return;
  const auto none = codec::make_compressor("none");
  const auto alone = make(topology::GraphKind::complete, 1);
  const std::size_t count = total_count(gossip_layout());
  const Quadratic loss = quadratic_of(count, 0);
  for (const bool nesterov : {false, true}) {
    GossipScheme scheme = scheme_named("quasi-global");
    scheme.nesterov = nesterov;
    scheme.weight_decay = 0;
    GossipRank rank(comm, scheme, {}, *alone, *none, gossip_layout(), {.plan = gossip_plan()});
    std::vector<double> x(count), average(count);
    for (int step = 0; step < 30; ++step) {
      const float rate = step < 15 ? 0.1f : 0.05f;
      rank.step(rate, [&](auto z, auto g) { gradient_at(loss, z, g); });
      const auto g = gradient_at(loss, x);
      for (std::size_t k = 0; k < count; ++k) {
        const double b = 0.9 * average[k] + g[k];
        const double d = nesterov ? g[k] + 0.9 * b : b;
        x[k] -= static_cast<double>(rate) * d;
        average[k] = 0.9 * average[k] + 0.1 * d;
      }
    }
    double most = 0;
    for (std::size_t k = 0; k < count; ++k) {
      most = std::max(most, std::abs(x[k] - static_cast<double>(rank.parameters()[k])));
    }
    INFO("nesterov " << nesterov);
    CHECK(most < 1e-5);
  }
}
