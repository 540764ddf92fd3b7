// SPDX-License-Identifier: Apache-2.0
// Which parameters are trained. Private to this room.

#pragma once

#include <span>
#include <string>

#include "model/torch/weights.hpp"

namespace eqt::model {

struct SplitParameters {
  NamedTensors trained, frozen;
};

/// Frozen are those of which a name matches a pattern and those that require no gradient; from now
/// on none of them does.
/// @throws Error{usage} for a pattern that matches none, and if none is left to train
SplitParameters split_parameters(const NamedTensors& parameters, std::span<const TiedName> tied,
                                 std::span<const std::string> patterns);

}  // namespace eqt::model
