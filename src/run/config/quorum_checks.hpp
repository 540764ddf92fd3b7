// SPDX-License-Identifier: Apache-2.0
// Combinations of rounds of a quorum with other keys.

#pragma once

#include <string>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

/// @throws Error{usage} where a combination cannot work
void check_quorum(const RunConfig& config, const codec::Properties& properties,
                  const std::string& origin);

}  // namespace eqt::config
