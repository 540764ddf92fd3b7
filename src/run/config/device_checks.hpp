// SPDX-License-Identifier: Apache-2.0
// What of a run cannot be computed on an NVIDIA device.

#pragma once

#include <string>

#include "config/run_config.hpp"

namespace eqt::config {

/// The first key whose value only the processor computes, as "model.precision \"int8\""; empty if
/// there is none.
std::string processor_only(const RunConfig& config);

/// @throws Error{usage} for device "cuda" with such a key
void check_device(const RunConfig& config, const std::string& origin);

}  // namespace eqt::config
