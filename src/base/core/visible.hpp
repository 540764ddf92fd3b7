// SPDX-License-Identifier: Apache-2.0
// Text of others - names in files, answers of hosts - for terminals, tables and messages.

#pragma once

#include <string>
#include <string_view>

namespace eqt {

/// Valid UTF-8 without control characters or marks that change the direction of writing; each is
/// replaced by U+FFFD.
std::string visible(std::string_view text);

/// Returns true where visible() changes nothing.
bool is_visible(std::string_view text);

}  // namespace eqt
