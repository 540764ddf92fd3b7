// SPDX-License-Identifier: Apache-2.0
// Gossip in every few steps only.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "sync/direction.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

/// The parts of gossip every few steps; pointed-to objects must outlive the synchronizer.
struct PeriodicGossipParts {
  std::unique_ptr<Synchronizer> gossip;  // of one round; its steps are rounds
  Direction* direction = nullptr;        // null: the optimizer has momentum and weight decay
  std::span<float> parameters, gradient;
};

/// The steps that gossip.
struct PeriodicGossipPlan {
  std::uint64_t local_steps = 1;  // H, at least 1: steps per round
  /// D, at most H: steps between the end of a round and the step after which the mixed model is
  /// applied. 0: at once.
  std::uint64_t delay = 0;
  StepId total_steps = 0;  // of the run, after which nothing is under way; not read without a delay
};

/// Ranks train alone for `local_steps` steps, the last of which gossips: PD-SGD (X. Li et al. 2019,
/// arXiv:1910.09126) with d-psgd, SQuARM-SGD (N. Singh et al. 2020, arXiv:2005.07041) with
/// choco-sgd. Steps after the last whole round are local. The direction uses the movement of whole
/// rounds, divided by the sum of their learning rates.
///
/// With a delay the model x' of a round's end is sent in the next steps, while ranks train on, and
/// x += mixed(x') - x' after D of them: a rank keeps its own progress, and only the correction is
/// late. It does not change the mean over ranks. A late message is waited for, so the result does
/// not depend on timing. With H = D = 1 it is combine-then-adapt. The run's last step applies all;
/// if it ends a round, that is mixed at once.
/// @pre the direction has no mixed buffer; with a delay there is none, and `gossip` is
/// GossipAveragingOptions::delayed
std::unique_ptr<Synchronizer> make_periodic_gossip(PeriodicGossipParts parts,
                                                   const PeriodicGossipPlan& plan);

}  // namespace eqt::sync
