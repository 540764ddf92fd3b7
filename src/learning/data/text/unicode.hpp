// SPDX-License-Identifier: Apache-2.0
// Characters of Unicode: UTF-8, categories, decompositions. The one header in front of utf8proc.

#pragma once

#include <string>
#include <string_view>

namespace eqt::data {

/// The characters of UTF-8 bytes. Bytes that are not UTF-8 are left out, each on its own, as
/// Python's bytes.decode(errors="ignore") does.
std::u32string decode_utf8(std::string_view bytes);

/// Returns true where all bytes are well-formed UTF-8 (Unicode, table 3-7).
bool is_utf8(std::string_view bytes);

/// Appends the UTF-8 of a character.
void append_utf8(char32_t character, std::string& out);

/// The property White_Space.
bool is_white_space(char32_t character);
/// Categories Cc, Cf and Co: control, format, private use.
bool is_other(char32_t character);
/// Categories P*, and those of ASCII's symbols that keyboards have beside them: $ + < = > ^ ` | ~.
bool is_punctuation(char32_t character);
/// Category Mn: marks without a width of their own, such as accents.
bool is_nonspacing_mark(char32_t character);
/// The blocks of Chinese characters that BERT puts spaces around; not Kana, not Hangul. The block
/// that Unicode begins at U+2B820 begins at U+2B920, as in PyPI's tokenizers.
bool is_chinese(char32_t character);

/// Returns the lower case of one character, which is always one character.
char32_t lower_case(char32_t character);

/// Canonical decomposition (Unicode's normalization form D).
std::u32string decomposed(std::u32string_view text);

}  // namespace eqt::data
