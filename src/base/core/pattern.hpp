// SPDX-License-Identifier: Apache-2.0
// Patterns on the names of parameters.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace eqt {

/// True if `name` is the pattern, in which "*" stands for any characters, dots included, and "?"
/// for one: "layer1.*", "*.bias".
constexpr bool matches(std::string_view pattern, std::string_view name) noexcept {
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// True if any of the patterns matches.
constexpr bool matches_any(std::span<const std::string> patterns, std::string_view name) noexcept {
  for (const std::string& pattern : patterns)
    if (matches(pattern, name)) return true;
  return false;
}

}  // namespace eqt
