// SPDX-License-Identifier: Apache-2.0
#include "planner/planned_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codec/frame.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "config/build_topology.hpp"
#include "core/error.hpp"
#include "model/replica.hpp"
#include "pipeline/plan.hpp"
#include "setup/build_collective.hpp"
#include "setup/build_messages.hpp"
#include "setup/build_model.hpp"
#include "sync/local_sgd.hpp"
#include "train/batch_allocation.hpp"

namespace eqt::planner {
namespace {

using collective::CollectiveCost;
using forecast::BucketWork;
using forecast::Peers;
using forecast::Round;
using pipeline::FusionBucket;

// Biased errors below it, as of rounding to bfloat16, are counted as noise.
constexpr double kSmallVariance = 1e-4;

void require_steps_together(const config::RunConfig& config) {
  const auto& s = config.synchronization;
  if (s.is_asynchronous() || s.algorithm->lazy)
    fail(Kind::usage,
         "plan: expected an algorithm whose ranks take their steps together, found {}{}; try "
         "--set synchronization.algorithm=allreduce, local-sgd or choco-sgd",
         s.algorithm->name, s.quorum > 0 ? " with a quorum" : "");
  require_counted_steps(config);
  constexpr std::uint64_t kMostLocalSteps = 100'000;
  if (*s.local_steps.count > kMostLocalSteps)
    fail(Kind::usage,
         "plan: expected at most {} synchronization.local_steps, each of which is simulated, found "
         "{}; plan for fewer: what is sent is divided among the steps of a round",
         kMostLocalSteps, *s.local_steps.count);
}

/// Each slice of a step: message to out-neighbours, decoding those of in-neighbours.
std::vector<Round> gossip_rounds(const FusionBucket& bucket, const codec::Compressor& compressor,
                                 double neighbours, const collective::CodecCosts& codec,
                                 const MachineCosts& machine, double& seconds_after) {
  const double bytes =
      collective::expected_message_bytes(compressor, std::span(&bucket, std::size_t{1}));
  const auto values = static_cast<double>(bucket.count());
  const double handling =
      neighbours * (machine.communication.message + bytes * machine.communication.byte);
  seconds_after = neighbours * values * codec.decode + handling;
  return {{.seconds_before = values * codec.encode + handling,
           .message_bytes = bytes,
           .to = Peers::graph}};
}

/// Sets the neighbours of all ranks in each graph. @return their mean number
double set_graphs(const config::RunConfig& config, int ranks, forecast::StepWork& work) {
  const auto& keys = config.synchronization.topology;
  const auto graph = config::build_topology(
      keys, ranks, keys.file.empty() ? std::string() : config::read_graph_file(keys.file));
  double edges = 0;
  for (StepId step = 0; step < graph->period(); ++step) {
    forecast::Graph neighbours;
    for (Rank rank = 0; rank < ranks; ++rank) {
      std::vector<int> to;
      for (const auto& neighbour : graph->at(step).out_neighbours(rank))
        if (neighbour.rank != rank) to.push_back(neighbour.rank);
      edges += static_cast<double>(to.size());
      neighbours.push_back(std::move(to));
    }
    work.graphs.push_back(std::move(neighbours));
  }
  return edges / ranks / static_cast<double>(graph->period());
}

/// Sets computing times of all boards, for the batches of the config.
void set_computing(const config::RunConfig& config, const PlannedNetwork& network,
                   const ClusterFile& file, const MachineCosts& machine, PlannedStep& step) {
  const double forward =
      2 * std::accumulate(network.multiply_adds.begin(), network.multiply_adds.end(), 0.0);
  const auto batch = static_cast<double>(config.train.batch_size);
  for (std::size_t b = 0; b < step.cluster.boards.size(); ++b) {
    forecast::Boards& boards = step.cluster.boards[b];
    if (const auto flops = file.facts[b].flops) {
      boards.step_seconds = 3 * forward * batch / *flops;
      step.guessed_computing = true;
    }
    boards.step_seconds *= static_cast<double>(config.train.accumulate);
    if (boards.update_seconds < 0)
      boards.update_seconds =
          static_cast<double>(total_count(network.layout)) * machine.update / boards.codec_speed;
    if (config.train.is_emulated()) boards.cores_of_rank = 0;
    step.batches.push_back(batch);
  }
  if (!config.train.has_batches_by_rank()) return;
  const int ranks = step.cluster.ranks();
  std::vector<train::RankSpeed> speeds;
  for (const forecast::Boards& boards : step.cluster.boards)
    speeds.insert(speeds.end(), static_cast<std::size_t>(boards.count * boards.ranks),
                  {.fixed = 0, .per_sample = boards.step_seconds / batch});
  std::vector<std::size_t> batches;
  if (config.train.balances()) {
    const std::size_t total = config.train.batch_size * static_cast<std::size_t>(ranks);
    batches = train::allocate_batches(
        speeds,
        std::vector<train::BatchLimits>(speeds.size(),
                                        {.least = config.train.batch_least, .most = total}),
        total);
  } else {
    for (const auto size : std::get<std::vector<std::uint64_t>>(config.train.batch_sizes))
      batches.push_back(size);
    if (std::ssize(batches) != ranks)
      fail(Kind::usage,
           "train.batch_sizes: expected a list of {} batches, one per rank, found {}; plan with "
           "\"auto\" or for as many ranks",
           ranks, batches.size());
  }
  // Ranks of a kind differ by a sample at most if batches follow speeds.
  std::size_t at = 0;
  for (std::size_t b = 0; b < step.cluster.boards.size(); ++b) {
    forecast::Boards& boards = step.cluster.boards[b];
    const auto ranks_here = static_cast<std::size_t>(boards.count * boards.ranks);
    double sum = 0;
    for (std::size_t i = 0; i < ranks_here; ++i) sum += static_cast<double>(batches[at++]);
    step.batches[b] = sum / static_cast<double>(ranks_here);
    boards.step_seconds *= step.batches[b] / batch;
  }
}

/// Stalls of the file are so many seconds apart, those of a forecast so many steps.
void set_stalls(forecast::Cluster& cluster) {
  for (forecast::Boards& boards : cluster.boards)
    if (boards.speed.stall_every > 0)
      boards.speed.stall_every = std::max(1e-3, boards.speed.stall_every / boards.step_seconds);
}

}  // namespace

void require_counted_steps(const config::RunConfig& config) {
  if (config.synchronization.local_steps.count) return;
  fail(Kind::usage,
       "plan: expected a number of synchronization.local_steps, found \"qsr\", which changes it "
       "along the run; set the number that it begins or ends with");
}

PlannedNetwork network_of(const config::RunConfig& config,
                          const std::optional<data::DatasetFacts>& facts) {
  const model::ModelOptions options =
      facts && !config.train.is_emulated()
          ? setup::network_for(config, {facts->inputs, facts->target, facts->classes})
          : setup::published_network(config);
  PlannedNetwork network = {
      .layout = model::make_idle_replica(options)->layout(), .multiply_adds = {}, .ready = {}};
  // Networks without pictures: each parameter is multiplied once.
  const bool has_pictures = options.inputs.size() == 1 && options.inputs[0].shape.size() == 3;
  const int side = has_pictures ? static_cast<int>(model::images_of(options).height) : 1;
  network.multiply_adds = model::multiply_adds(network.layout, side);
  network.ready = model::ready_parts(network.multiply_adds);
  return network;
}

PlannedStep plan_step(const config::RunConfig& config, const PlannedNetwork& network,
                      const ClusterFile& file, CodecSpeeds& codecs, const MachineCosts& machine) {
  require_steps_together(config);
  const auto& s = config.synchronization;
  PlannedStep step = {.work = {},
                      .cluster = file.cluster,
                      .collective = "none",
                      .batches = {},
                      .forward = network.forward};
  set_computing(config, network, file, machine, step);
  set_stalls(step.cluster);
  const int ranks = step.cluster.ranks();
  step.work.overlap = s.overlap;
  step.work.every = static_cast<int>(*s.local_steps.count);
  step.work.after_update = s.algorithm->mixes || s.algorithm->averages_models;
  step.work.delay =
      static_cast<int>(s.delay.count.value_or(sync::automatic_delay(*s.local_steps.count)));
  if (ranks == 1) step.quantisation = PlannedStep::Quantisation();
  if (ranks == 1 || !s.algorithm->exchanges()) return step;

  const auto compressor = config.compressor.make();
  const bool feedback =
      s.algorithm->mixes || setup::make_memory(config, ranks, *compressor, 0) != nullptr;
  const collective::CodecCosts codec = codecs.of(config, *compressor, feedback);
  const auto variance = codecs.variance_of(config, *compressor);
  const bool is_noise = compressor->properties().unbiased && !feedback;
  const bool mean_each_step = s.algorithm->averages() && !step.work.after_update;
  if (mean_each_step && variance && (is_noise || *variance <= kSmallVariance))
    step.quantisation = {.variance = *variance, .times = 1};
  config::RunConfig settled = config;
  int boards = 0;
  for (const forecast::Boards& kind : step.cluster.boards) boards += kind.count;
  const bool equal_hosts = std::ranges::all_of(step.cluster.boards, [&](const auto& kind) {
    return kind.ranks == step.cluster.boards[0].ranks;
  });
  std::vector<FusionBucket> buckets = setup::make_plan(config, network.layout, *compressor);
  if (s.algorithm->averages() && s.collective == collective::kAutomatic)
    settled.synchronization.collective =
        setup::collective_on_paper(*compressor, buckets, ranks, boards, equal_hosts);
  const collective::CollectiveRow& row = *settled.synchronization.collective;
  if (s.algorithm->averages()) {
    collective::require_carries(row, *compressor);
    buckets = setup::make_plan(settled, network.layout, *compressor);
    step.work.slots = std::min(step.work.slots, row.slots);
  }
  const double neighbours = s.algorithm->mixes ? set_graphs(config, ranks, step.work) : 0;
  step.collective = s.algorithm->mixes ? std::string(s.algorithm->name) : std::string(row.name);
  const std::vector<double> ready = pipeline::ready_times(buckets, network.layout, network.ready);
  auto volumes = collective::bucket_volumes(*compressor, buckets, ranks, equal_hosts ? boards : 0);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    // With batches that are added up only the last one's backward pass overlaps.
    const auto parts = static_cast<double>(config.train.accumulate);
    BucketWork work = {.ready = 1 - (1 - ready[b]) / parts, .rounds = {}};
    if (s.algorithm->mixes) {
      work.rounds =
          gossip_rounds(buckets[b], *compressor, neighbours, codec, machine, work.seconds_after);
      step.message_bytes += neighbours * work.rounds.at(0).message_bytes;
    } else {
      collective::Volume& volume = volumes[b];
      if (settled.synchronization.collective == collective::kPowerSgd)
        volume.message_bytes =
            collective::power_sgd_message_bytes(std::span(&buckets[b], std::size_t{1}),
                                                static_cast<std::size_t>(config.compressor.rank));
      const auto cost = collective::collective_cost(row, volume);
      if (!cost)
        fail(Kind::usage,
             "plan: the collective {} has no formula for {} ranks on {} boards; try "
             "another --set synchronization.collective",
             row.name, ranks, boards);
      if (step.quantisation) step.quantisation->times = std::max(1, cost->quantisations);
      work.rounds = collective::rounds_of(row, *cost, volume, codec, machine.communication,
                                          work.seconds_after);
      step.message_bytes += cost->sent_bytes;
    }
    step.work.buckets.push_back(std::move(work));
  }
  return step;
}

}  // namespace eqt::planner
