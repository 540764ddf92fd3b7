// SPDX-License-Identifier: Apache-2.0
#include "report/text.hpp"

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace eqt::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";     // U+2026

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

/// `text` with the characters replaced that have a replacement.
template <typename Replace>
std::string replaced(std::string_view text, Replace replacement) {
  std::string result;
  for (const char c : text) {
    const std::string_view found = replacement(c);
    if (found.empty()) {
      result += c;
    } else {
      result += found;
    }
  }
  return result;
}

/// Characters that would begin a tag or an entity, in HTML and in Markdown alike.
std::string_view tag_entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    default:
      return "";
  }
}

std::string_view html_entity(char c) {
  switch (c) {
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return tag_entity(c);
  }
}

std::string_view markdown_escape(char c) {
  switch (c) {
    case '|':
      return "\\|";
    case '\\':
      return "\\\\";
    case '`':
      return "\\`";
    case '*':
      return "\\*";
    case '[':
      return "\\[";
    default:
      return tag_entity(c);
  }
}

/// Also characters that ligatures would change, and "[", which would be an argument after a row's
/// "\\\\".
std::string_view latex_escape(char c) {
  switch (c) {
    case '\\':
      return "\\textbackslash{}";
    case '{':
      return "\\{";
    case '}':
      return "\\}";
    case '$':
      return "\\$";
    case '&':
      return "\\&";
    case '#':
      return "\\#";
    case '%':
      return "\\%";
    case '_':
      return "\\_";
    case '^':
      return "\\textasciicircum{}";
    case '~':
      return "\\textasciitilde{}";
    case '<':
      return "$<$";
    case '>':
      return "$>$";
    case '|':
      return "$|$";
    case '"':
      return "\\textquotedbl{}";
    case '`':
      return "\\textasciigrave{}";
    case '[':
      return "{[}";
    case '-':
      return "{-}";
    default:
      return "";
  }
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

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (width_of(text) <= most) return std::string(text);
  std::string result;
  for (std::size_t width = 1; width < most; ++width) {
    const std::size_t bytes = first_of(text).bytes;
    result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result.append(kEllipsis);
}

std::string html_text(std::string_view text) { return replaced(text, html_entity); }

std::string markdown_text(std::string_view text) { return replaced(text, markdown_escape); }

std::string latex_text(std::string_view text) {
  // Old engines do not have U+FFFD and U+2026, nor "±" as text.
  std::string latex = replaced(text, latex_escape);
  for (const auto& [from, to] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"±", "$\\pm$"}, {kReplacement, "?"}, {kEllipsis, "..."}})
    for (std::size_t at = 0; (at = latex.find(from, at)) != std::string::npos; at += to.size())
      latex.replace(at, from.size(), to);
  return latex;
}

std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  quoted += replaced(text, [](char c) { return c == '"' ? "\"\"" : ""; });
  return quoted += '"';
}

}  // namespace eqt::report
