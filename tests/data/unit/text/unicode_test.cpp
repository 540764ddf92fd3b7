// SPDX-License-Identifier: Apache-2.0
#include "data/text/unicode.hpp"

#include <string>

#include "support/catch.hpp"

using namespace eqt::data;

namespace {

std::string utf8(std::u32string_view text) {
  std::string bytes;
  for (const char32_t c : text) append_utf8(c, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("UTF-8 of every length is read and written", "[unicode]") {
  const std::u32string text = U"\x01z\x7F\x80\u07FF\u0800\uD7FF\uE000\uFFFF\U00010000\U0010FFFF";
  const std::string bytes = utf8(text);
  CHECK(bytes.size() == 3 + 2 * 2 + 4 * 3 + 2 * 4);
  CHECK(is_utf8(bytes));
  CHECK(decode_utf8(bytes) == text);
}

TEST_CASE("bytes that are not UTF-8 are left out", "[unicode]") {
  // Unicode, table 3-7: continuation bytes alone, overlong forms, surrogates, beyond U+10FFFF,
  // sequences cut short.
  for (const char* const bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82",
        "\xF0\x9F\x98"}) {
    const std::string text = "a" + std::string(bad) + "b";
    CHECK_FALSE(is_utf8(text));
    CHECK(decode_utf8(text) == U"ab");
    CHECK(decode_utf8("a" + std::string(bad)) == U"a");
  }
  CHECK(decode_utf8("\xE2\x82\xE2\x82\xAC") == U"\u20AC");
  CHECK(decode_utf8("").empty());
}

TEST_CASE("characters have Unicode's categories", "[unicode]") {
  for (const char32_t c :
       std::u32string(U" \t\n\v\f\r\x85\u00A0\u1680\u2003\u2028\u2029\u202F\u3000"))
    CHECK(is_white_space(c));
  for (const char32_t c : std::u32string(U"a\u200B\uFEFF\u0000")) CHECK_FALSE(is_white_space(c));
  for (const char32_t c : std::u32string(U"\x01\x7F\x85\u00AD\u200D\u202E\uE000\U000E0001"))
    CHECK(is_other(c));
  for (const char32_t c : std::u32string(U"a \u0301\u4E2D\U0001F600\uFFFF"))
    CHECK_FALSE(is_other(c));
  for (const char32_t c : std::u32string(U"!$+<=>^`|~_-\u2014\u00AB\u3002\u05BE"))
    CHECK(is_punctuation(c));
  for (const char32_t c : std::u32string(U"a0 \u20AC\u00B0\u2260\u4E2D"))
    CHECK_FALSE(is_punctuation(c));
  CHECK(is_nonspacing_mark(U'\u0301'));
  CHECK_FALSE(is_nonspacing_mark(U'\u0903'));  // Mc
  CHECK(is_chinese(U'\u4E2D'));
  CHECK_FALSE(is_chinese(U'\u3042'));
  CHECK(lower_case(U'\u00C9') == U'\u00E9');
  CHECK(lower_case(U'\u212A') == U'k');
}

TEST_CASE("texts are decomposed with marks in the order of their classes", "[unicode]") {
  CHECK(decomposed(U"\u00E9") == U"e\u0301");
  CHECK(decomposed(U"\u1E69") == U"s\u0323\u0307");        // UAX 15, table 4
  CHECK(decomposed(U"\u1E0B\u0323") == U"d\u0323\u0307");  // likewise
  CHECK(decomposed(U"q\u0307\u0323") == U"q\u0323\u0307");
  CHECK(decomposed(U"\uAC01") == U"\u1100\u1161\u11A8");
  CHECK(decomposed(U"\u212B") == U"A\u030A");
  CHECK(decomposed(U"\uFB01") == U"\uFB01");  // a compatibility decomposition is none
}
