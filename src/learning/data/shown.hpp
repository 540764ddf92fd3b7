// SPDX-License-Identifier: Apache-2.0
// Text from files, for messages.

#pragma once

#include <string>
#include <string_view>

namespace eqt::data {

/// `text` in quotes, on one line and cut to a length that suits a message; bytes that are not
/// printable ASCII become '?'.
std::string shown(std::string_view text);

}  // namespace eqt::data
