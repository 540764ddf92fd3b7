// SPDX-License-Identifier: Apache-2.0
// Bytes as published tables count them.

#pragma once

#include <cstdint>
#include <optional>

#include "config/run_config.hpp"
#include "core/layout.hpp"

namespace eqt::setup {

/// Returns what a node sends in `steps` steps of this algorithm as published tables count it. They
/// cover gossip of one message a step without compression or with the largest values, their indices
/// beside. Rounds after the last step do not count. Nothing is returned where they cover nothing,
/// as for pairs, whose exchanges follow from ranks' speeds.
std::optional<std::uint64_t> paper_sent_bytes(const config::RunConfig& config, const Layout& layout,
                                              StepId steps);

}  // namespace eqt::setup
