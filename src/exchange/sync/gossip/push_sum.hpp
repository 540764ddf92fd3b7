// SPDX-License-Identifier: Apache-2.0
// Push-sum: computes the mean if only the columns of the weights sum to 1.

#pragma once

#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "core/saved_state.hpp"
#include "topology/topology.hpp"

namespace eqt::sync {

/// A rank gossips numerators x = w z and mixes the weight w in the same way; z = x / w is the
/// model. Kempe et al., FOCS 2003; Assran et al. (SGP), ICML 2019, arXiv:1811.10792, algorithm 1.
///
/// Deviates: the weights depend only on the graph and the step, so every rank computes those of all
/// ranks and none is sent. Weights are double.
class PushSum {
 public:
  /// @param count values of the model
  PushSum(const topology::Topology& topology, Rank rank, std::size_t count);

  double weight() const { return weights_[static_cast<std::size_t>(rank_)]; }
  /// The weights of all ranks; they sum to the number of ranks.
  std::span<const double> weights() const { return weights_; }

  /// Converts the model z', the result of a local update of z, to the numerator x + (z' - z).
  void to_numerator(std::span<float> model) const;
  /// After the numerators were mixed in `step`: mixes the weights, w += gamma (W w - w), and
  /// converts the numerator to the model. With another gamma than for the numerators the model
  /// would be biased.
  void to_model(StepId step, float consensus_step, std::span<float> numerator);

  /// Another number of ranks starts with weights of 1, at the weighted mean.
  void visit_state(StateVisitor& visitor);

 private:
  void mix_weights(StepId step, double consensus_step);

  const topology::Topology& topology_;
  const Rank rank_;
  bool trivial_;                        // every matrix is doubly stochastic: all weights are 1
  std::vector<double> weights_, next_;  // by rank
  FlatBuffer numerator_;                // of the last mix; empty while trivial
  bool mixed_ = false;                  // numerator_ is set
};

}  // namespace eqt::sync
