// SPDX-License-Identifier: Apache-2.0
// Guarantees of a compressor's settings, printed before training.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "core/layout.hpp"

namespace eqt::app {

/// A line about the largest error of a message over the network's tensors, relative to the
/// gradient's square, and warnings. Empty for lossless compressors.
/// @param layout of the network
std::vector<std::string> compressor_notes(const config::RunConfig& config, const Layout& layout);

/// The compressor auto: why the noise that it sees may not be that of a network's gradients. Also
/// part of compressor_notes().
std::vector<std::string> noise_notes(const config::RunConfig& config);

}  // namespace eqt::app
