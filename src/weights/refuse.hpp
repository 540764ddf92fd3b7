// SPDX-License-Identifier: Apache-2.0
// The error for files that are no weights. Private to this room.

#pragma once

#include <string>
#include <utility>

#include "core/error.hpp"
#include "weights/state_dict.hpp"

namespace eqt::weights {

/// @throws Error{data} with the expected format, `reason`, and how to write such a file
[[noreturn]] void refuse_file(const std::string& path, const std::string& reason);

template <typename... Args>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<Args...> reason,
                         Args&&... args) {
  refuse_file(path, fmt::format(reason, std::forward<Args>(args)...));
}

}  // namespace eqt::weights
