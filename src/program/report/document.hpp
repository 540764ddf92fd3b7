// SPDX-License-Identifier: Apache-2.0
// Reads a small file whole.

#pragma once

#include <filesystem>
#include <string>

namespace eqt::report {

/// The text of a file of at most 16 MiB; empty if there is no such file.
/// @throws Error{data} for a larger file, or one that cannot be read
std::string read_document(const std::filesystem::path& path);

}  // namespace eqt::report
