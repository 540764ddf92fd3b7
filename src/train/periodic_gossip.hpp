// SPDX-License-Identifier: Apache-2.0
// Gossip in every few steps only.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "gossip/direction.hpp"
#include "train/synchronizer.hpp"

namespace eqt::train {

/// The parts of gossip every few steps; pointed-to objects must outlive the synchronizer.
struct PeriodicGossipParts {
  std::unique_ptr<Synchronizer> gossip;    // of one round; its steps are rounds
  gossip::Direction* direction = nullptr;  // null: the optimizer has momentum and weight decay
  std::span<float> parameters, gradient;
};

/// Ranks train alone for `local_steps` steps, the last of which gossips: PD-SGD (X. Li et al. 2019,
/// arXiv:1910.09126) with d-psgd, SQuARM-SGD (N. Singh et al. 2020, arXiv:2005.07041) with
/// choco-sgd. Steps after the last whole round are local. The direction uses the movement of whole
/// rounds, divided by the sum of their learning rates.
/// @pre the direction has no mixed buffer, and local_steps > 0
std::unique_ptr<Synchronizer> make_periodic_gossip(PeriodicGossipParts parts,
                                                   std::uint64_t local_steps);

}  // namespace eqt::train
