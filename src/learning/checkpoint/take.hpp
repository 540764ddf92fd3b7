// SPDX-License-Identifier: Apache-2.0
// Reads numbers from the front of names and texts. Private to the room.

#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace eqt::checkpoint {

/// Removes `prefix` from the front of `text`. @return whether it was there
inline bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Removes `prefix` and then a number.
template <typename Number>
bool take(std::string_view& text, std::string_view prefix, Number& number, int base = 10) {
  if (!take(text, prefix)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace eqt::checkpoint
