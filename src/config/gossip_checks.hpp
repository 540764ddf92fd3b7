// What the keys of decentralised training allow, without a number of ranks.

#pragma once

#include <string>
#include <string_view>

#include "config/run_config.hpp"

namespace eqt::config {

/// What an algorithm of this name does; all false: it does not mix models with neighbours'.
struct GossipTraits {
  bool mixes = false;
  bool push_sum = false;       // works on weights that only sum to 1 by column
  bool public_copies = false;  // choco: keeps what neighbours know
  bool own_direction = false;  // brings its own use of gradients, without momentum
  bool asynchronous = false;   // pairs average beside the steps, whose number differs by rank
};
GossipTraits gossip_traits(std::string_view algorithm);

/// Keys that would do nothing, and algorithms that do not go with a compressor or a momentum.
/// @throws Error{usage}; `origin` says where the keys stand
void check_gossip(const RunConfig& config, const std::string& origin);

}  // namespace eqt::config
