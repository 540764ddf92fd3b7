// SPDX-License-Identifier: Apache-2.0
#include "figures/text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <initializer_list>
#include <system_error>
#include <utility>

namespace eqt::figures {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";     // U+2026

/// Returns true for a byte that begins a character of UTF-8.
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

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

/// Counts the bytes of the first character. @pre `text` is not empty
std::size_t first_bytes(std::string_view text) {
  std::size_t bytes = 1;
  while (bytes < text.size() && !begins_character(text[bytes])) ++bytes;
  return bytes;
}

/// Returns true if a spreadsheet would compute the field.
bool is_formula(std::string_view text) {
  if (text.size() < 2 || std::string_view("=+-@\t\r").find(text[0]) == std::string_view::npos)
    return false;
  const char* const begin = text.data() + (text[0] == '+' ? 1 : 0);
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [after, error] = std::from_chars(begin, end, number);
  return error != std::errc() || after != end;
}

}  // namespace

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += begins_character(c) ? 1u : 0u;
  return width;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (width_of(text) <= most) return std::string(text);
  std::string result;
  for (std::size_t width = 1; width < most; ++width) {
    const std::size_t bytes = first_bytes(text);
    result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result.append(kEllipsis);
}

std::string tail_of(std::string_view text, std::size_t most) {
  std::size_t width = width_of(text);
  if (width <= most) return std::string(text);
  for (; width >= most; --width) text.remove_prefix(first_bytes(text));
  return std::string(kEllipsis).append(text);
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
  const std::string field = is_formula(text) ? fmt::format("'{}", text) : std::string(text);
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string quoted = "\"";
  quoted += replaced(field, [](char c) { return c == '"' ? "\"\"" : ""; });
  return quoted += '"';
}

}  // namespace eqt::figures
