// SPDX-License-Identifier: Apache-2.0
// A user is told this before training: the data and the weights that a run would read, and
// guarantees of its compressor's settings.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "data/catalogue.hpp"
#include "setup/memory_estimate.hpp"

namespace eqt::app {

/// A run would read and need this.
struct Findings {
  std::vector<std::string> lines;                 // on data and weights
  std::optional<setup::MemoryEstimate> estimate;  // none: the data is not on this machine
};

/// @throws Error as the run does before its first step
Findings look_at_run(const config::RunConfig& config, int ranks);

/// Lines about the data that a run of `ranks` ranks on this machine opens: samples, shapes, classes
/// with their samples, what is left out of the files.
/// @param facts of look_at_data_here()
/// @throws Error{data}, Error{usage} as the run does
std::vector<std::string> data_findings(const config::RunConfig& config,
                                       const data::DatasetFacts& facts, int ranks);

/// Lines about the set that this host's rank opens, where the other ranks' own sets are on other
/// hosts; none where data.path has no folder of this host.
/// @throws Error{data}, Error{usage} as the run does
std::vector<std::string> own_set_findings(const config::RunConfig& config);

/// "network: 11.2 million parameters, 556 million multiply-adds a sample": of the forward pass, for
/// texts of the greatest length, without multiply-adds for a network of the user's own.
/// @param trained, frozen  numbers of its parameters
std::string network_text(const config::RunConfig& config, const data::DatasetFacts& facts,
                         std::size_t trained, std::size_t frozen);

/// Lines about the weights that the network begins with: none if they are drawn.
/// @throws Error{data} as the run does
std::vector<std::string> weight_findings(const config::RunConfig& config,
                                         const data::DatasetFacts& facts);

/// A line about the largest error of a message over the network's tensors, relative to the
/// gradient's square, and warnings. Empty for lossless compressors.
/// @param layout of the network
std::vector<std::string> compressor_notes(const config::RunConfig& config, const Layout& layout);

/// Returns a line where the optimizer makes so much of the messages' noise that training was seen
/// to end lower. Also part of compressor_notes().
std::vector<std::string> optimizer_notes(const config::RunConfig& config, const Layout& layout);

/// The compressor auto: why the noise that it sees may not be that of a network's gradients. Also
/// part of compressor_notes().
std::vector<std::string> noise_notes(const config::RunConfig& config);

}  // namespace eqt::app
