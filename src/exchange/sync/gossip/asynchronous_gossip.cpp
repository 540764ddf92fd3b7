// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/asynchronous_gossip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "sync/algorithm_parts.hpp"
#include "sync/epoch_thread.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/pair_roles.hpp"
#include "sync/gossip/pairwise_progress.hpp"

namespace eqt::sync {
namespace {

class AsynchronousGossip final : public Synchronizer, private OwnPace {
 public:
  AsynchronousGossip(const AsynchronousGossipParts& parts, const PairwiseExchangeOptions& options)
      : p_(parts),
        progress_(parts.comm.rank(), static_cast<std::size_t>(parts.comm.size()),
                  options.role.active, options.role.partners.empty()),
        exchange_(parts.comm, parts.pairs, parts.plan, progress_, options),
        thread_(parts.comm, progress_, exchange_, options.timeout_seconds) {}

  void begin(StepId step, std::uint64_t) override {
    thread_.stop_watching();
    if (!thread_.runs()) {
      p_.model.reset(p_.parameters);
      progress_.open_epoch();
      thread_.start();
    }
    progress_.begin_step();
    thread_.rethrow();
    step_ = step;
    thread_.watch(step_);
  }

  void slice_ready(std::size_t) override {}
  SyncResult finish() override { return {}; }

  SyncResult after_update(float) override {
    p_.model.synchronize(p_.parameters);
    progress_.end_step();
    thread_.rethrow();
    thread_.watch(++step_);  // what happens before begin() is part of the step
    return result();
  }

  std::span<const std::uint64_t> sent_bytes_by_peer() const override {
    return exchange_.sent_bytes_by_peer();
  }

  OwnPace* own_pace() override { return this; }

  /// Another number of ranks starts as if all had taken the mean rank's steps, with new pairs.
  void visit_state(StateVisitor& visitor) override {
    std::vector<StepId> steps(static_cast<std::size_t>(p_.comm.size()));
    progress_.steps(steps);
    std::uint64_t mean = progress_.steps_of_all() / steps.size();
    visitor.number("mean steps", mean, Across::same);
    if (visitor.restores()) steps.assign(steps.size(), mean);
    visitor.numbers("steps", steps, Across::fresh);
    if (visitor.restores()) progress_.set_steps(steps);
    visit_in(visitor, "pairs", exchange_);
  }

 private:
  std::uint64_t steps_of_all_ranks() override { return progress_.steps_of_all(); }
  StepId own_steps() override { return progress_.own_steps(); }

  SyncResult end_epoch() override {
    thread_.finish();
    p_.model.synchronize(p_.parameters);
    SyncResult last = result();
    std::string note = agree_on_steps();
    if (p_.comm.rank() == 0) last.note = std::move(note);
    return last;
  }

  SyncResult result() {
    PairwiseProgress::Taken taken = progress_.take();
    return {taken.traffic, taken.variance, {}};
  }

  /// Called when no rank sends any more: makes the counts equal on all ranks. @return a note about
  /// the epoch
  std::string agree_on_steps() {
    const std::vector<StepId> steps = p_.comm.allgather(progress_.own_steps());
    progress_.set_steps(steps);
    const PairwiseProgress::Exchanges own = progress_.exchanges();
    std::array<double, 1> both = {static_cast<double>(own.count)};
    std::array<double, 1> longest = {static_cast<double>(own.longest)};
    p_.comm.allreduce_sum(both);
    p_.comm.allreduce_max(longest);
    const auto [least, most] = std::ranges::minmax_element(steps);
    return fmt::format(
        "{:.0f} exchanges of pairs; at most {:.0f} steps of a rank between two of its own; steps "
        "so far from {} (rank {}) to {} (rank {})",
        both[0] / 2, longest[0], *least, least - steps.begin(), *most, most - steps.begin());
  }

  const AsynchronousGossipParts p_;
  PairwiseProgress progress_;
  PairwiseExchange exchange_;
  StepId step_ = 0;
  EpochThread<PairwiseExchange> thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Synchronizer> make_asynchronous_gossip(const AsynchronousGossipParts& parts,
                                                       const PairwiseExchangeOptions& options) {
  return std::make_unique<AsynchronousGossip>(parts, options);
}

namespace {

constexpr std::string_view kKeys[] = {"consensus_step"};

struct PairsOwned {
  std::vector<pipeline::FusionBucket> buckets;
  std::unique_ptr<SharedModel> model;
  std::unique_ptr<PairwiseAveraging> pairs;
};

BuiltAlgorithm make(AlgorithmParts parts, const AlgorithmSettings& settings) {
  PairRole role;
  parts.comm.agree_after([&] { role = assign_role(*parts.topology, parts.comm.rank()); });
  const ChosenStep step = choose_step(parts, settings);
  const auto owned = std::make_shared<PairsOwned>();
  owned->buckets = std::move(parts.buckets);
  parts.comm.agree_after([&] {
    owned->model = std::make_unique<SharedModel>(owned->buckets, parts.parameters.size());
    owned->pairs = std::make_unique<PairwiseAveraging>(
        PairwiseParts{parts.comm, parts.compressor, owned->buckets, *owned->model},
        PairwiseOptions{.run_seed = settings.run_seed, .consensus_step = step.consensus_step});
  });
  BuiltAlgorithm built{.owned = owned, .note = step.note};
  if (parts.compressor.adaptive_levels() != nullptr) {
    if (!built.note.empty()) built.note += "; ";
    built.note += "levels stay as they start, for ranks share no step in which they could adapt";
  }
  built.synchronizer = make_asynchronous_gossip({.comm = parts.comm,
                                                 .pairs = *owned->pairs,
                                                 .model = *owned->model,
                                                 .plan = owned->buckets,
                                                 .parameters = parts.parameters},
                                                {.role = role,
                                                 .lossy = !parts.compressor.properties().lossless,
                                                 .timeout_seconds = settings.timeout_seconds,
                                                 .fault = parts.fault});
  return built;
}

}  // namespace

const AlgorithmRow kAdPsgd = {
    .name = "ad-psgd",
    .about =
        "asynchronous: pairs average while all train at their own pace; needs a bipartite graph",
    .keys = kKeys,
    .mixes = true,
    .asynchronous = true,
    .models_remembered = 3,
    .make = make};

}  // namespace eqt::sync
