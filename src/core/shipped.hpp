// SPDX-License-Identifier: Apache-2.0
// Files that come with the program: scripts, configs, documents.

#pragma once

#include <string>
#include <string_view>

namespace eqt {

/// Where such a file lies, for messages: `path` itself ("scripts/get_data.sh") in a checkout, and
/// its place beside the program if that is installed
/// ("/usr/share/equant-train/scripts/get_data.sh").
std::string shipped(std::string_view path);

}  // namespace eqt
