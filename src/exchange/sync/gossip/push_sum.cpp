// SPDX-License-Identifier: Apache-2.0
// Numerators and weights of push-sum.

#include "sync/gossip/push_sum.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::sync {

PushSum::PushSum(const topology::Topology& topology, Rank rank, std::size_t count)
    : topology_(topology),
      rank_(rank),
      trivial_(true),
      weights_(static_cast<std::size_t>(topology.ranks()), 1.0),
      next_(weights_.size()) {
  for (StepId step = 0; step < topology.period(); ++step) {
    EQT_CHECK(topology.at(step).is_column_stochastic(), "push-sum over {}", topology.name());
    trivial_ = trivial_ && topology.at(step).is_doubly_stochastic();
  }
  if (!trivial_) numerator_ = FlatBuffer(count);
}

void PushSum::to_numerator(std::span<float> model) const {
  if (trivial_ || !mixed_) return;  // w is 1
  const auto x = numerator_.span();
  const auto inverse = static_cast<float>(1 / weight());
  for (std::size_t i = 0; i < model.size(); ++i) model[i] = x[i] + (model[i] - x[i] * inverse);
}

void PushSum::to_model(StepId step, float consensus_step, std::span<float> numerator) {
  if (trivial_) return;
  mix_weights(step, static_cast<double>(consensus_step));
  std::copy(numerator.begin(), numerator.end(), numerator_.span().begin());
  mixed_ = true;
  const auto inverse = static_cast<float>(1 / weight());
  for (float& value : numerator) value *= inverse;
}

void PushSum::visit_state(StateVisitor& visitor) {
  if (trivial_) return;
  std::uint64_t mixed = mixed_ ? 1 : 0;
  visitor.doubles("weights", weights_, Across::fresh);
  visitor.values("numerator", numerator_.span(), Across::fresh);
  visitor.number("mixed", mixed, Across::fresh);
  mixed_ = mixed != 0;
}

void PushSum::mix_weights(StepId step, double consensus_step) {
  const topology::MixingMatrix& w = topology_.at(step);
  for (Rank i = 0; i < topology_.ranks(); ++i) {
    const double own = weights_[static_cast<std::size_t>(i)];
    double mixed = w.self_weight(i) * own;
    for (const topology::Neighbour& from : w.in_neighbours(i)) {
      mixed += from.weight * weights_[static_cast<std::size_t>(from.rank)];
    }
    next_[static_cast<std::size_t>(i)] = own + consensus_step * (mixed - own);
  }
  std::swap(weights_, next_);
}

}  // namespace eqt::sync
