// SPDX-License-Identifier: Apache-2.0
// How this room refuses an option. Private to this room.

#pragma once

#include <string_view>

#include "core/error.hpp"

namespace eqt::optim {

/// @throws Error{usage} with the config key and its range, unless `valid`
inline void check(bool valid, std::string_view key, std::string_view range, double found) {
  if (!valid) fail(Kind::usage, "{} must be {}, found {}", key, range, found);
}

}  // namespace eqt::optim
