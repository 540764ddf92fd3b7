// SPDX-License-Identifier: Apache-2.0
// What the keys of algorithms allow, without a number of ranks.

#pragma once

#include <string>

#include "config/run_config.hpp"

namespace eqt::config {

/// Keys that would do nothing, and algorithms that do not go with a compressor or a momentum.
/// @param properties of the compressor
/// @throws Error{usage}; `origin` says where the keys stand
void check_gossip(const RunConfig& config, const codec::Properties& properties,
                  const std::string& origin);

}  // namespace eqt::config
