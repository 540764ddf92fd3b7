// SPDX-License-Identifier: Apache-2.0
// What ranks exchange and when: one row for each algorithm that configs can name, those that
// average over all ranks included.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codec/compressor.hpp"
#include "core/catalogue.hpp"

namespace eqt::topology {
class Topology;
}

namespace eqt::gossip {

class Direction;
class Mixer;
struct MixerOptions;
struct MixerParts;

/// What comes first in a step of gossip.
enum class Order { adapt_then_combine, combine_then_adapt };
std::span<const Named<Order>> names_of(Order);

/// What momentum accumulates.
enum class MomentumKind { local, quasi_global };
std::span<const Named<MomentumKind>> names_of(MomentumKind);

/// Adding an algorithm: its row beside its code, and a line in algorithms.def.
struct AlgorithmRow {
  std::string_view name, about;
  /// Keys of a config's section that it reads and some other algorithm does not.
  std::span<const std::string_view> keys = {};

  // All ranks average by a collective, with a memory of what was not sent: gradients in every step,
  // or what several steps made of the models.
  bool averages_gradients = false;
  bool averages_models = false;
  bool averages() const noexcept { return averages_gradients || averages_models; }
  bool exchanges() const noexcept { return averages() || mixes; }

  // Models are mixed with neighbours', by this mixer or, without one, in pairs beside the steps.
  bool mixes = false;
  bool asynchronous = false;   // in pairs; the number of steps differs by rank
  bool push_sum = false;       // works on weights that only sum to 1 by column
  bool public_copies = false;  // keeps what neighbours know, so the graph must not change
  bool quasi_global = false;   // may take quasi-global momentum for a direction
  std::string_view without_equal_sums = {};  // takes its place where rows of weights differ from 1
  std::string_view on_changing_graph = {};   // takes its place where it needs a static graph
  // What a rank keeps beside model and momentum, in models: of those that mix, for one, the mean
  // model of evaluation and what neighbours send.
  unsigned models_remembered = 0;

  std::unique_ptr<Mixer> (*make_mixer)(const MixerParts& parts, std::size_t count,
                                       const MixerOptions& options) = nullptr;
  /// Its own use of gradients, without momentum; null: the optimizer's or quasi-global momentum.
  std::unique_ptr<Direction> (*make_direction)(std::size_t count, float weight_decay) = nullptr;
  bool mixes_direction = false;  // neighbours mix the direction, too: two messages a step
  /// Conditions of its own on the graph; null: none.
  /// @throws Error{usage}
  void (*check_topology)(const topology::Topology& topology) = nullptr;
  /// The default gamma for a compressor of this contraction; null: 1.
  double (*default_step)(double contraction, const codec::Properties& properties,
                         bool symmetric) = nullptr;

  /// In the order of the documentation.
  static const Catalogue<AlgorithmRow>& all();
};

#define EQT_ALGORITHM(row) extern const AlgorithmRow row;
#include "gossip/algorithms.def"
#undef EQT_ALGORITHM

}  // namespace eqt::gossip
