// SPDX-License-Identifier: Apache-2.0
// A small training by local SGD, and a simulation of all its ranks in one process.

#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "codec/catalogue.hpp"
#include "collective/memory.hpp"
#include "core/flat_buffer.hpp"
#include "data/partition.hpp"
#include "support/blobs.hpp"
#include "support/record_log.hpp"
#include "support/toy_replica.hpp"
#include "sync/gradient_averaging.hpp"
#include "sync/local_sgd.hpp"
#include "train/trainer.hpp"

namespace eqt::test::local_sgd {

inline constexpr std::size_t kBatch = 6;
inline constexpr std::uint64_t kValues = 26;  // 2 classes of 12 pixels, and 2 biases
inline const optim::SgdOptions kNesterov = {
    .momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f, .momentum_corrected = {}};
inline const optim::SgdOptions kPlain = {
    .momentum = 0, .nesterov = false, .weight_decay = 0, .momentum_corrected = {}};

struct Settings {
  sync::LocalSgdPlan plan;
  bool quasi_global = false;  // else Nesterov's, local
  sync::OuterStep outer = {};
  bool overlap = false;  // of delayed rounds
  /// Puts an observer around the synchronizer.
  std::function<std::unique_ptr<sync::Synchronizer>(std::unique_ptr<sync::Synchronizer>)> watch =
      {};
  bool cut = false;  // into the buckets that fragments need
};

/// The bias, then the last, second and first third of the weights.
inline std::vector<pipeline::FusionBucket> cut_buckets() {
  const auto bucket = [](std::uint32_t index, std::size_t begin, std::size_t end) {
    const bool bias = index == 0;
    return pipeline::FusionBucket{.index = index,
                                  .begin = begin,
                                  .end = end,
                                  .segments = {{.slice = bias ? 1u : 0u,
                                                .first_index = bias ? 0 : begin,
                                                .begin = begin,
                                                .count = end - begin,
                                                .compressed = !bias,
                                                .rows = 0}}};
  };
  return {bucket(0, 24, 26), bucket(1, 16, 24), bucket(2, 8, 16), bucket(3, 0, 8)};
}

struct Result {
  metrics::Summary summary;
  RecordLog log;
  std::vector<float> parameters;
};

inline std::unique_ptr<sync::Direction> make_direction(const Settings& settings) {
  if (!settings.quasi_global) return nullptr;
  return sync::make_quasi_global_momentum({{.end = kValues, .weight_decay = 0.01}},
                                          {.nesterov = true});
}

/// The results of a run on one rank.
struct Node {
  Node(const data::Dataset& set, int rank, int ranks, const Settings& settings)
      : partition(set.size(), rank, ranks, 1),
        steps_per_epoch(set.size() / static_cast<std::size_t>(ranks) / kBatch),
        loader(set, partition,
               {.batch_size = kBatch,
                .batches_per_epoch = steps_per_epoch,
                .augment = false,
                .seed = 1}),
        replica(12, 2, 1),
        optimizer(optim::make_sgd(kValues, settings.quasi_global ? kPlain : kNesterov)),
        direction(make_direction(settings)) {}

  data::IidPartition partition;
  std::size_t steps_per_epoch;
  data::BatchLoader loader;
  ToyReplica replica;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<sync::Direction> direction;
};

inline std::unique_ptr<optim::Schedule> falling_rate() {
  return optim::make_schedule(
      {.kind = optim::kCosine, .learning_rate = 0.05, .milestones = {}, .total_steps = 40});
}

/// @param algorithm local-sgd, or else allreduce
inline Result train_toy(comm::Communicator& comm, const codec::Compressor& compressor,
                        const Settings& settings, bool local_sgd = true) {
  Result result;
  const Blobs blobs;
  Node node(blobs, comm.rank(), comm.size(), settings);
  auto buckets = settings.cut || settings.plan.fragments > 1
                     ? cut_buckets()
                     : pipeline::plan_buckets(node.replica.layout(), compressor, {.skip_below = 1});
  const auto collective = collective::make_allgather(comm, compressor, buckets);
  const auto memory =
      compressor.properties().needs_feedback ? collective::make_error_feedback(kValues) : nullptr;
  sync::GradientAveragingOptions options;
  options.overlap = local_sgd ? settings.overlap : true;
  const FlatBuffer under_way(kValues);
  const std::span<float> difference =
      local_sgd && settings.plan.delays() ? under_way.span() : node.replica.gradient();
  auto mean = sync::make_fragment_averaging(comm, *collective, memory.get(), std::move(buckets),
                                            settings.plan.fragments, node.replica.layout(),
                                            difference, options);
  std::unique_ptr<sync::Synchronizer> synchronizer;
  if (local_sgd) {
    synchronizer = sync::make_local_sgd({.comm = comm,
                                         .mean = std::move(mean),
                                         .direction = node.direction.get(),
                                         .parameters = node.replica.parameters(),
                                         .gradient = node.replica.gradient(),
                                         .difference = difference,
                                         .layout = node.replica.layout()},
                                        settings.plan, settings.outer);
  } else {
    synchronizer = std::move(mean);
  }
  if (settings.watch) synchronizer = settings.watch(std::move(synchronizer));
  train::Plan plan;
  plan.batch_size = kBatch;
  plan.steps_per_epoch = node.steps_per_epoch;
  plan.total_steps = settings.plan.total_steps;
  plan.evaluate_every = 0;
  plan.replicas_equal = !local_sgd;
  plan.ends_equal = local_sgd;
  const auto schedule = falling_rate();
  train::Trainer trainer({.comm = comm,
                          .replica = node.replica,
                          .batches = &node.loader,
                          .test_set = &blobs,
                          .optimizer = *node.optimizer,
                          .schedule = *schedule,
                          .synchronizer = *synchronizer,
                          .sink = result.log},
                         plan);
  result.summary = trainer.run();
  result.parameters.assign(node.replica.parameters().begin(), node.replica.parameters().end());
  return result;
}

/// The fragment of each value: bucket j is in fragment j mod F, and buckets begin at the end.
inline std::vector<std::size_t> fragments_of_values(const Settings& settings) {
  std::vector<std::size_t> fragments(kValues);
  if (settings.plan.fragments == 1) return fragments;
  for (std::size_t i = 0; i < kValues; ++i)
    fragments[i] = (i >= 24 ? 0 : 3 - i / 8) % settings.plan.fragments;
  return fragments;
}

/// Local SGD with late averages, fragments and mixing for all ranks in one process, in double.
inline std::vector<float> simulate_late(int ranks, const Settings& settings) {
  const Blobs blobs;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int r = 0; r < ranks; ++r)
    nodes.push_back(std::make_unique<Node>(blobs, r, ranks, settings));
  const auto schedule = falling_rate();
  using Model = std::vector<double>;
  const auto first = nodes[0]->replica.parameters();
  Model common(first.begin(), first.end()), momentum(kValues), mean(kValues);
  std::vector<Model> sent(nodes.size(), Model(kValues));
  const std::vector<std::size_t> fragments = fragments_of_values(settings);
  const auto measure = [&](std::size_t fragment) {
    for (std::size_t i = 0; i < kValues; ++i) {
      if (fragments[i] != fragment) continue;
      mean[i] = 0;
      for (std::size_t r = 0; r < nodes.size(); ++r) {
        sent[r][i] = common[i] - static_cast<double>(nodes[r]->replica.parameters()[i]);
        mean[i] += sent[r][i] / ranks;
      }
    }
  };
  enum class Merge { adopt, keep, mix };
  // SlowMo's: the mean rate of the round whose mean is applied; otherwise 1.
  struct Rates {
    double sum = 0, steps = 0, sent = 1;
  };
  std::vector<Rates> rates(settings.plan.fragments);
  const auto end_round = [&](std::size_t fragment) {
    measure(fragment);
    Rates& round = rates[fragment];
    if (settings.outer.by_rate) round = {.sent = round.sum / round.steps};
  };
  const auto apply = [&](std::size_t fragment, Merge merge) {
    const double rate = rates[fragment].sent;
    const double mu = static_cast<double>(settings.outer.momentum);
    const double alpha = static_cast<double>(settings.outer.mixing.value_or(0));
    for (std::size_t i = 0; i < kValues; ++i) {
      if (fragments[i] != fragment) continue;
      const double gradient = mean[i] / rate;
      momentum[i] = mu * momentum[i] + gradient;
      const double direction = settings.outer.nesterov ? gradient + mu * momentum[i] : momentum[i];
      const double moved = static_cast<double>(settings.outer.learning_rate) * rate * direction;
      common[i] -= moved;
      for (std::size_t r = 0; r < nodes.size(); ++r) {
        float& value = nodes[r]->replica.parameters()[i];
        const auto own = static_cast<double>(value);
        value = static_cast<float>(merge == Merge::adopt  ? common[i]
                                   : merge == Merge::keep ? own + sent[r][i] - moved
                                                          : alpha * own + (1 - alpha) * common[i]);
      }
    }
  };
  const StepId every = settings.plan.local_steps, total = settings.plan.total_steps;
  const StepId delay = settings.plan.delay.value_or((every + 1) / 2);
  const Merge usual = settings.outer.mixing ? Merge::mix : delay == 0 ? Merge::adopt : Merge::keep;
  std::vector<StepId> due(settings.plan.fragments);  // 0: nothing is under way
  for (StepId done = 1; done <= total; ++done) {
    for (const auto& node : nodes) {
      (void)node->replica.forward_backward(node->loader.next(), [](std::size_t) {});
      node->optimizer->step(node->replica.parameters(), node->replica.gradient(),
                            schedule->rate(done - 1));
    }
    for (Rates& round : rates) {
      round.sum += static_cast<double>(schedule->rate(done - 1));
      round.steps += 1;
    }
    for (std::size_t f = 0; f < due.size(); ++f) {
      if (due[f] != 0 && (done == due[f] || done == total)) {
        apply(f, usual);
        due[f] = 0;
      }
      const StepId offset = f * every / due.size();
      if (done != total && (done < offset || (done - offset) % every != 0)) continue;
      end_round(f);
      if (delay == 0 || done == total) {
        apply(f, done == total ? Merge::adopt : usual);
      } else {
        due[f] = done + delay;
      }
    }
  }
  const auto last = nodes[0]->replica.parameters();
  return {last.begin(), last.end()};
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace eqt::test::local_sgd
