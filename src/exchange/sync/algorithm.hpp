// SPDX-License-Identifier: Apache-2.0
// What ranks exchange and when: one row for each algorithm, including those that average over all
// ranks.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "codec/compressor.hpp"
#include "core/catalogue.hpp"
#include "core/layout.hpp"

namespace eqt::topology {
class Topology;
}

namespace eqt::sync {

struct AlgorithmParts;
struct AlgorithmSettings;
struct BuiltAlgorithm;
class Direction;
class Mixer;
struct MixerOptions;
struct MixerParts;

/// Says what comes first in a step of gossip.
enum class Order { adapt_then_combine, combine_then_adapt };
std::span<const Named<Order>> names_of(Order);

/// Says what momentum accumulates.
enum class MomentumKind { local, quasi_global };
std::span<const Named<MomentumKind>> names_of(MomentumKind);

/// To add an algorithm, write its row in the file of its code, and a line in algorithms.def.
struct AlgorithmRow {
  std::string_view name, about;
  /// Config keys that it reads and some other algorithms do not.
  std::span<const std::string_view> keys = {};

  // All ranks average by a collective, with error feedback: gradients in every step, or the changes
  // of models over several steps.
  bool averages_gradients = false;
  bool can_be_simulated = false;  // by one process, see simulated_averaging.hpp
  bool averages_models = false;
  // All ranks average gradients and may leave a message out; no collective and no compressor.
  bool lazy = false;
  bool averages() const noexcept { return averages_gradients || averages_models; }
  bool exchanges() const noexcept { return averages() || lazy || mixes; }
  /// Ranks share steps in which what they encode can adapt the compressor.
  bool adapts() const noexcept { return averages() || (mixes && !asynchronous); }
  /// All ranks apply the same gradient in every step.
  bool shares_model() const noexcept { return averages_gradients || lazy; }
  /// Updates without momentum, with the same rate and weight decay for all parameters.
  bool plain_gradients() const noexcept { return make_direction != nullptr || lazy; }

  // Models are mixed with those of neighbours, by this mixer or, without one, in pairs
  // asynchronously.
  bool mixes = false;
  bool asynchronous = false;   // in pairs; ranks take different numbers of steps
  bool push_sum = false;       // works if only the columns of weights sum to 1
  bool public_copies = false;  // has copies of neighbours' models, so the graph must not change
  bool quasi_global = false;   // works with quasi-global momentum
  std::string_view without_equal_sums = {};  // the algorithm to use instead if rows do not sum to 1
  std::string_view on_changing_graph = {};   // the algorithm to use instead if the graph changes
  // Memory of a rank besides model and momentum, in models: for algorithms that mix, this includes
  // the mean model of the evaluation and the neighbours' messages.
  unsigned models_remembered = 0;

  /// Makes it. Collective where the algorithm mixes models, which is then agreed by all ranks.
  /// @throws Error{usage} if it cannot work with these settings, ranks or graph
  BuiltAlgorithm (*make)(AlgorithmParts parts, const AlgorithmSettings& settings) = nullptr;

  // Algorithms that mix have these (make_gossip() in gossip/gossip_averaging.cpp).
  std::unique_ptr<Mixer> (*make_mixer)(const MixerParts& parts, std::size_t count,
                                       const MixerOptions& options) = nullptr;
  /// Its own direction, without momentum; null: the optimizer's or quasi-global momentum.
  std::unique_ptr<Direction> (*make_direction)(const UpdateRules& rules) = nullptr;
  bool mixes_direction = false;  // the direction is mixed, too: two messages per step
  /// Checks its own conditions on the graph; null: none.
  /// @throws Error{usage}
  void (*check_topology)(const topology::Topology& topology) = nullptr;
  /// The default gamma for a compressor of this contraction; null: 1.
  double (*default_step)(double contraction, const codec::Properties& properties,
                         bool symmetric) = nullptr;

  /// Returns all rows, in the order of the documentation.
  static const Catalogue<AlgorithmRow>& all();
};

#define EQT_ALGORITHM(row) extern const AlgorithmRow row;
#include "sync/algorithms.def"
#undef EQT_ALGORITHM

}  // namespace eqt::sync
