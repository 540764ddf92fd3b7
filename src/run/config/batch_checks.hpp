// SPDX-License-Identifier: Apache-2.0
// Which runs can have batches of another size on each rank.

#pragma once

#include <string>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

/// @throws Error{usage}
void check_batches(const RunConfig& config, const codec::Properties& compressor,
                   const std::string& origin);

}  // namespace eqt::config
