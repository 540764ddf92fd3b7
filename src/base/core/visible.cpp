// SPDX-License-Identifier: Apache-2.0
#include "core/visible.hpp"

#include <cstddef>
#include <cstdint>

namespace eqt {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes of the character that begins with `first`; 0: none does.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

struct Character {
  std::size_t bytes;   // length
  std::uint32_t code;  // 0: not UTF-8
};

/// The first character of a text that is not empty (RFC 3629).
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = length_of(byte(0));
  if (length == 0 || length > text.size()) return {1, 0};
  if (length == 1) return {1, byte(0)};
  std::uint32_t code = byte(0) & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {1, 0};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return {length, overlong || surrogate || code > 0x10FFFF ? 0 : code};
}

bool is_shown(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool breaks_line = code == 0x2028 || code == 0x2029;
  const bool turns = code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
  return !control && !breaks_line && !turns;
}

}  // namespace

std::string visible(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_of(text);
    result += is_shown(character.code) ? text.substr(0, character.bytes) : kReplacement;
    text.remove_prefix(character.bytes);
  }
  return result;
}

bool is_visible(std::string_view text) { return visible(text) == text; }

}  // namespace eqt
