// SPDX-License-Identifier: Apache-2.0
#include "data/shown.hpp"

#include <cstddef>

namespace eqt::data {

std::string shown(std::string_view text) {
  constexpr std::size_t kMax = 40;  // [bytes]
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMax)) quoted += c >= ' ' && c <= '~' ? c : '?';
  return quoted + (text.size() > kMax ? "...\"" : "\"");
}

}  // namespace eqt::data
