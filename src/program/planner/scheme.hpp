// SPDX-License-Identifier: Apache-2.0
// Schemes that a plan compares: a config each, with the keys that differ.

#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"

namespace eqt::planner {

struct Scheme {
  std::string name;  // the values of what is varied: "e-elastiquant", "topk, ring"
  config::RunConfig config;
};

/// Every combination of the values. A compressor with another name than the config's takes its own
/// defaults for the other keys of the section, unless they are varied, too.
/// @param vary "key=a,b,c"; empty: the config's compressor, float32 and the usual ones
/// @param uneven the boards differ in speed: the config with batches by speed is a scheme, too
/// @throws Error{usage} for a key or value that is none; usual compressors that do not suit the
/// config are left out
std::vector<Scheme> schemes_of(const std::string& config_text, const std::string& origin,
                               const std::vector<std::string>& sets,
                               const std::vector<std::string>& vary, bool uneven);

}  // namespace eqt::planner
