// SPDX-License-Identifier: Apache-2.0
// How this room says that a file is not what it takes. Private to this room.

#pragma once

#include <string>
#include <utility>

#include "core/error.hpp"
#include "weights/state_dict.hpp"

namespace eqt::weights {

/// @throws Error{data}: what the file must be, `reason` why it is not, and how to write one
[[noreturn]] void refuse_file(const std::string& path, const std::string& reason);

template <typename... Args>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<Args...> reason,
                         Args&&... args) {
  refuse_file(path, fmt::format(reason, std::forward<Args>(args)...));
}

}  // namespace eqt::weights
