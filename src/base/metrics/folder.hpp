// SPDX-License-Identifier: Apache-2.0
// Lists folders; every error is reported.

#pragma once

#include <filesystem>
#include <vector>

#include "core/error.hpp"

namespace eqt::metrics {

/// True if there is anything of this name, including a symbolic link.
/// @throws Error{output} if that cannot be determined
bool is_there(const std::filesystem::path& path);

/// Lists entries in no particular order; none if there is no such folder.
/// @throws Error{kind} if it cannot be read, or is no folder
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder,
                                                         Kind kind = Kind::output);

}  // namespace eqt::metrics
