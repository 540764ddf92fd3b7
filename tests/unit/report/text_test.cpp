// SPDX-License-Identifier: Apache-2.0
#include "report/text.hpp"

#include <string>

#include "support/catch.hpp"

using namespace eqt::report;

namespace {
const std::string kReplacement = "\xEF\xBF\xBD";
}

TEST_CASE("invisible characters are replaced, visible ones are kept", "[report]") {
  CHECK(visible("plain ± \xF0\x9F\x98\x80") == "plain ± \xF0\x9F\x98\x80");
  CHECK(visible("a\x1b[31mb") == "a" + kReplacement + "[31mb");
  CHECK(visible(std::string("a\0b", 3)) == "a" + kReplacement + "b");
  CHECK(visible("a\nb\x7f") == "a" + kReplacement + "b" + kReplacement);
  CHECK(visible("\xE2\x80\xAE txt") == kReplacement + " txt");  // U+202E changes the direction
  CHECK(visible("\xC2\x85") == kReplacement);                   // U+0085, a control character
}

TEST_CASE("bytes that are no UTF-8 are replaced one by one", "[report]") {
  CHECK(visible("\xC0\xAF") == kReplacement + kReplacement);             // overlong /
  CHECK(visible("\xED\xA0\x80").find('\xED') == std::string::npos);      // a surrogate
  CHECK(visible("\xF4\x90\x80\x80").find('\xF4') == std::string::npos);  // above U+10FFFF
  CHECK(visible("a\xE2\x82") == "a" + kReplacement + kReplacement);      // cut off
}

TEST_CASE("width counts characters, and shortening does not split them", "[report]") {
  CHECK(width_of("a ± b") == 5);
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("±±±±", 3) == "±±\xE2\x80\xA6");
}

TEST_CASE("special characters are escaped in HTML, Markdown and CSV", "[report]") {
  CHECK(html_text("<a href=\"x\">&'") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  CHECK(markdown_text("a|b <i> `x` [y](z)") == "a\\|b &lt;i&gt; \\`x\\` \\[y](z)");
  CHECK(csv_text("plain") == "plain");
  CHECK(csv_text("a,b") == "\"a,b\"");
  CHECK(csv_text("say \"x\"") == "\"say \"\"x\"\"\"");
}
