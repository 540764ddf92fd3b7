// What lies in a folder, without an error that nobody hears.

#pragma once

#include <filesystem>
#include <vector>

#include "core/error.hpp"

namespace eqt::metrics {

/// Whether anything has this name; a symbolic link counts, wherever it leads.
/// @throws Error{output} if that cannot be found out
bool is_there(const std::filesystem::path& path);

/// In no order; none where there is no such folder.
/// @throws Error{kind} if it cannot be read, or is no folder
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder,
                                                         Kind kind = Kind::output);

}  // namespace eqt::metrics
