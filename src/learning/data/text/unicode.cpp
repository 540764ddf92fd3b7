// SPDX-License-Identifier: Apache-2.0
#include "data/text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace eqt::data {
namespace {

utf8proc_int32_t number(char32_t character) { return static_cast<utf8proc_int32_t>(character); }

utf8proc_category_t category(char32_t character) { return utf8proc_category(number(character)); }

bool is_ascii(char32_t character) { return character < 0x80; }

/// The class by which marks after a letter are ordered; 0: the character starts anew.
int combining_class(char32_t character) {
  return utf8proc_get_property(number(character))->combining_class;
}

/// Reads one character at `at` and moves behind it; false, one byte on, where none is.
bool read_character(std::string_view bytes, std::size_t& at, char32_t& character) {
  const auto* const from = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + at;
  utf8proc_int32_t found = -1;
  const utf8proc_ssize_t length =
      utf8proc_iterate(from, static_cast<utf8proc_ssize_t>(bytes.size() - at), &found);
  if (length < 1 || found < 0) {
    ++at;
    return false;
  }
  at += static_cast<std::size_t>(length);
  character = static_cast<char32_t>(found);
  return true;
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    char32_t character = first;
    if (is_ascii(first))
      ++at;
    else if (!read_character(bytes, at, character))
      continue;
    text.push_back(character);
  }
  return text;
}

bool is_utf8(std::string_view bytes) {
  char32_t character = 0;
  for (std::size_t at = 0; at < bytes.size();)
    if (!read_character(bytes, at, character)) return false;
  return true;
}

void append_utf8(char32_t character, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes = {};
  const utf8proc_ssize_t length = utf8proc_encode_char(number(character), bytes.data());
  for (utf8proc_ssize_t i = 0; i < length; ++i)
    out.push_back(static_cast<char>(bytes[static_cast<std::size_t>(i)]));
}

bool is_white_space(char32_t character) {
  if (is_ascii(character)) return character == ' ' || (character >= '\t' && character <= '\r');
  if (character == 0x85) return true;
  switch (category(character)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

bool is_other(char32_t character) {
  if (is_ascii(character)) return character < ' ' || character == 0x7F;
  switch (category(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return true;
    default:
      return false;
  }
}

bool is_punctuation(char32_t character) {
  if (is_ascii(character))
    return (character >= '!' && character <= '/') || (character >= ':' && character <= '@') ||
           (character >= '[' && character <= '`') || (character >= '{' && character <= '~');
  switch (category(character)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool is_nonspacing_mark(char32_t character) {
  return !is_ascii(character) && category(character) == UTF8PROC_CATEGORY_MN;
}

bool is_chinese(char32_t character) {
  struct Block {
    char32_t first, last;
  };
  static constexpr Block kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                      {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                      {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return std::ranges::any_of(kBlocks, [character](const Block& block) {
    return character >= block.first && character <= block.last;
  });
}

char32_t lower_case(char32_t character) {
  if (is_ascii(character))
    return character >= 'A' && character <= 'Z' ? character - 'A' + 'a' : character;
  return static_cast<char32_t>(utf8proc_tolower(number(character)));
}

std::u32string decomposed(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t character : text) {
    constexpr std::size_t kMax = 8;  // Unicode's longest canonical decomposition has 4
    std::array<utf8proc_int32_t, kMax> parts = {};
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(number(character), parts.data(), kMax, UTF8PROC_DECOMPOSE, nullptr);
    EQT_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kMax),
              "the decomposition of U+{:04X} has {} characters",
              static_cast<std::uint32_t>(character), count);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      out.push_back(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]));
  }
  // Marks behind a letter in the order of their classes, those of one class as they were.
  for (std::size_t begin = 0; begin < out.size();) {
    if (combining_class(out[begin]) == 0) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < out.size() && combining_class(out[end]) != 0) ++end;
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(begin),
                     out.begin() + static_cast<std::ptrdiff_t>(end), [](char32_t a, char32_t b) {
                       return combining_class(a) < combining_class(b);
                     });
    begin = end;
  }
  return out;
}

}  // namespace eqt::data
