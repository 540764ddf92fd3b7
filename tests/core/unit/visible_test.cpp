// SPDX-License-Identifier: Apache-2.0
#include "core/visible.hpp"

#include <string>

#include "support/catch.hpp"

using eqt::is_visible;
using eqt::visible;

namespace {
const std::string kReplacement = "\xEF\xBF\xBD";
}

TEST_CASE("invisible characters are replaced, visible ones are kept", "[visible]") {
  CHECK(visible("plain ± \xF0\x9F\x98\x80") == "plain ± \xF0\x9F\x98\x80");
  CHECK(visible("a\x1b[31mb") == "a" + kReplacement + "[31mb");
  CHECK(visible(std::string("a\0b", 3)) == "a" + kReplacement + "b");
  CHECK(visible("a\nb\x7f") == "a" + kReplacement + "b" + kReplacement);
  CHECK(visible("\xE2\x80\xAE txt") == kReplacement + " txt");  // U+202E changes the direction
  CHECK(visible("\xC2\x85") == kReplacement);                   // U+0085, a control character
}

TEST_CASE("bytes that are no UTF-8 are replaced one by one", "[visible]") {
  CHECK(visible("\xC0\xAF") == kReplacement + kReplacement);             // overlong /
  CHECK(visible("\xED\xA0\x80").find('\xED') == std::string::npos);      // a surrogate
  CHECK(visible("\xF4\x90\x80\x80").find('\xF4') == std::string::npos);  // above U+10FFFF
  CHECK(visible("a\xE2\x82") == "a" + kReplacement + kReplacement);      // cut off
}

TEST_CASE("what is visible stays as it is", "[visible]") {
  CHECK(is_visible(""));
  CHECK(is_visible("Grüße"));
  CHECK_FALSE(is_visible("a\tb"));
  CHECK_FALSE(
      is_visible("\xC2\x9B"
                 "2J"));  // U+009B begins a terminal's command
}
