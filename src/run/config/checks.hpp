// SPDX-License-Identifier: Apache-2.0
// Combinations of keys that make no sense.

#pragma once

#include <string>

#include "config/run_config.hpp"

namespace eqt::config {

/// Checks every combination; each single value is already valid. Keys that the chosen compressor
/// ignores are no error (sweeps set them for all), except these, which would silently not happen:
/// compressor.coding, compressor.levels, compressor.elasticity, and compressor.norm "max" where the
/// compressor has the L2 norm.
/// @throws Error{usage} naming the keys, and what to set
void check_combinations(const RunConfig& config, const std::string& origin);

/// The first key whose value only the processor computes, as "model.precision \"int8\""; empty if
/// there is none.
std::string processor_only(const RunConfig& config);

}  // namespace eqt::config
