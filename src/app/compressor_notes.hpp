// SPDX-License-Identifier: Apache-2.0
// What a compressor's settings guarantee, before anything is trained with them.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "core/layout.hpp"

namespace eqt::app {

/// A line about the largest error of a message over the network's tensors, relative to the
/// gradient's square, and warnings where training may suffer. Empty for lossless compressors.
/// @param layout of the network
std::vector<std::string> compressor_notes(const config::RunConfig& config, const Layout& layout);

}  // namespace eqt::app
