// SPDX-License-Identifier: Apache-2.0
// A rank that gossips through the real synchronizer and engine, for tests of its model.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/layout.hpp"
#include "optim/optimizer.hpp"
#include "support/gossip_oracle.hpp"
#include "sync/gossip/consensus_step.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "sync/gossip/periodic_gossip.hpp"

namespace eqt::test {

/// Options of a step.
struct GossipSetup {
  pipeline::PlanOptions plan = {};
  bool overlap = false;
  sync::MixerOptions mixer = {};
  StepId total_steps = 0;  // the last one's result has a note
};

/// Damping, and the gamma that a run without synchronization.consensus_step would take.
inline GossipSettings usual_settings(const GossipScheme& scheme,
                                     const codec::Compressor& compressor,
                                     std::span<const pipeline::FusionBucket> plan) {
  const sync::Quality quality = sync::measure_quality(compressor, plan, 1);
  GossipSettings settings{.damping = static_cast<double>(quality.damping)};
  if (scheme.mixing == Mixing::choco)
    settings.gamma = sync::choco_step(quality.contraction, compressor.properties());
  if (scheme.mixing == Mixing::squeeze)
    settings.gamma = sync::squeeze_step(quality.contraction, compressor.properties());
  return settings;
}

class GossipRank {
 public:
  GossipRank(comm::Communicator& comm, const GossipScheme& scheme, const GossipSettings& settings,
             const topology::Topology& topology, const codec::Compressor& compressor,
             const Layout& layout, const GossipSetup& setup)
      : comm_(comm),
        layout_(layout),
        plan_(pipeline::plan_buckets(layout, compressor, setup.plan)),
        parameters_(total_count(layout)),
        gradient_(parameters_.size()) {
    const sync::MixerParts parts{comm, compressor, topology, plan_};
    const std::size_t count = parameters_.size();
    mixer_ = make_mixer(scheme, parts, count, setup);
    direction_ = make_direction(scheme, layout);
    if (direction_ != nullptr && !direction_->mixed().empty()) {
      direction_mixer_ = make_mixer(scheme, parts, count, setup);
    }
    if (scheme.push_sum) {
      push_sum_ = std::make_unique<sync::PushSum>(topology, comm.rank(), count);
    }
    optim::SgdOptions sgd{.momentum = 0, .momentum_corrected = {}};
    if (scheme.groups) sgd.rules = rules_of(scheme, layout);
    if (scheme.rule == Rule::local_momentum) {
      sgd.momentum = static_cast<float>(scheme.momentum);
      sgd.nesterov = scheme.nesterov;
      sgd.weight_decay = static_cast<float>(scheme.weight_decay);
    } else {
      sgd.rules = sync::rates_alone(sgd.rules);
    }
    optimizer_ = optim::make_sgd(count, sgd);
    const bool periodic = settings.local_steps > 1 || settings.delay > 0;
    synchronizer_ =
        sync::make_gossip_averaging({.comm = comm,
                                     .mixer = *mixer_,
                                     .direction = periodic ? nullptr : direction_.get(),
                                     .direction_mixer = direction_mixer_.get(),
                                     .push_sum = push_sum_.get(),
                                     .plan = plan_,
                                     .parameters = parameters_,
                                     .gradient = gradient_},
                                    {.run_seed = settings.seed,
                                     .consensus_step = static_cast<float>(settings.gamma),
                                     .damping = static_cast<float>(settings.damping),
                                     .combine_first = scheme.combine_first || settings.delay > 0,
                                     .overlap = setup.overlap,
                                     .delayed = settings.delay > 0,
                                     .lossy = !compressor.properties().lossless,
                                     .density = {},
                                     .total_steps = setup.total_steps});
    if (!periodic) return;
    synchronizer_ = sync::make_periodic_gossip({.gossip = std::move(synchronizer_),
                                                .direction = direction_.get(),
                                                .parameters = parameters_,
                                                .gradient = gradient_},
                                               {.local_steps = settings.local_steps,
                                                .delay = settings.delay,
                                                .total_steps = settings.total_steps});
  }

  std::span<float> parameters() { return parameters_; }
  /// After a step: the direction that it took.
  std::span<const float> direction() const { return gradient_; }
  sync::Mixer& mixer() { return *mixer_; }
  const sync::Mixer& mixer() const { return *mixer_; }
  sync::Direction* own_direction() { return direction_.get(); }
  double weight() const { return push_sum_ ? push_sum_->weight() : 1; }
  std::span<const double> weights() const { return push_sum_->weights(); }

  /// Declares, before the first step, that all ranks have the same parameters.
  void start() { synchronizer_->start(); }

  /// Waits for messages under way, as before an evaluation.
  void settle() { synchronizer_->late()->settle(); }
  bool is_under_way() const { return synchronizer_->late()->is_under_way(); }

  void visit_state(StateVisitor& visitor) {
    visitor.values("parameters", parameters_, Across::mean);
    visitor.number("step", step_, Across::same);
    optimizer_->visit_state(visitor, Across::mean);
    synchronizer_->visit_state(visitor);
  }

  /// @param gradient (model, out)
  template <typename Gradient>
  sync::SyncResult step(float rate, Gradient&& gradient) {
    comm_.set_step(step_);
    synchronizer_->begin(step_, 0);
    gradient(std::span<const float>(parameters_), std::span<float>(gradient_));
    for (std::size_t s = layout_.size(); s-- > 0;) synchronizer_->slice_ready(s);
    (void)synchronizer_->finish();
    optimizer_->step(parameters_, gradient_, rate);
    ++step_;
    return synchronizer_->after_update(rate);
  }
  /// A step that only mixes.
  void mix() {
    step(0,
         [](std::span<const float>, std::span<float> g) { std::fill(g.begin(), g.end(), 0.0f); });
  }

 private:
  static std::unique_ptr<sync::Mixer> make_mixer(const GossipScheme& scheme,
                                                 const sync::MixerParts& parts, std::size_t count,
                                                 const GossipSetup& setup) {
    if (scheme.mixing == Mixing::choco) return sync::make_choco_mixer(parts, count, setup.mixer);
    if (scheme.mixing == Mixing::squeeze)
      return sync::make_squeeze_mixer(parts, count, setup.mixer);
    return sync::make_plain_mixer(parts);
  }

  static std::unique_ptr<sync::Direction> make_direction(const GossipScheme& scheme,
                                                         const Layout& layout) {
    const UpdateRules rules = rules_of(scheme, layout);
    if (scheme.rule == Rule::d2) return sync::make_d2(rules);
    if (scheme.rule == Rule::gradient_tracking) return sync::make_gradient_tracking(rules);
    if (scheme.rule == Rule::local_momentum) return nullptr;
    return sync::make_quasi_global_momentum(
        rules, {.momentum = static_cast<float>(scheme.momentum), .nesterov = scheme.nesterov});
  }

  comm::Communicator& comm_;
  const Layout layout_;
  const std::vector<pipeline::FusionBucket> plan_;
  std::vector<float> parameters_, gradient_;
  std::unique_ptr<sync::Mixer> mixer_, direction_mixer_;
  std::unique_ptr<sync::Direction> direction_;
  std::unique_ptr<sync::PushSum> push_sum_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<sync::Synchronizer> synchronizer_;
  StepId step_ = 0;
};

}  // namespace eqt::test
