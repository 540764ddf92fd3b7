// SPDX-License-Identifier: Apache-2.0
// Files that come with the program: scripts, configs, documents.

#pragma once

#include <string>
#include <string_view>

namespace eqt {

/// The path of such a file, for messages: `path` itself ("scripts/get_data.sh") in a checkout, and
/// the installed path if the program is installed ("/usr/share/equant-train/scripts/get_data.sh").
std::string shipped(std::string_view path);

}  // namespace eqt
