// SPDX-License-Identifier: Apache-2.0
// What any network refuses, in whatever precision. Private to this room.

#pragma once

#include "model/replica.hpp"

namespace eqt::model {

/// @throws Error{usage} for an input, a task or options that the network cannot take
void check_options(const ModelOptions& options);

}  // namespace eqt::model
