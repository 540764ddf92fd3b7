// SPDX-License-Identifier: Apache-2.0
// Groups of channels in normalization. No torch.

#pragma once

#include <cstdint>

#include "model/catalogue.hpp"

namespace eqt::model {

/// The number of groups of a layer; 0 for kinds without groups.
/// @param groups  as the config has it: 0 = as published
/// @throws Error{usage} if it does not divide the channels, or the kind has no groups
std::int64_t groups_for(const NormalizationRow& kind, int groups, std::int64_t channels);

}  // namespace eqt::model
