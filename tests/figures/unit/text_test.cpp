// SPDX-License-Identifier: Apache-2.0
#include "figures/text.hpp"

#include <string>

#include "support/catch.hpp"

using namespace eqt::figures;

TEST_CASE("width counts characters, and shortening does not split them", "[figures]") {
  CHECK(width_of("a ± b") == 5);
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("±±±±", 3) == "±±\xE2\x80\xA6");
  CHECK(tail_of("abc", 3) == "abc");
  CHECK(tail_of("a±b±", 3) ==
        "\xE2\x80\xA6"
        "b±");
}

TEST_CASE("special characters are escaped in HTML, Markdown and CSV", "[figures]") {
  CHECK(html_text("<a href=\"x\">&'") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  CHECK(markdown_text("a|b <i> `x` [y](z)") == "a\\|b &lt;i&gt; \\`x\\` \\[y](z)");
  CHECK(csv_text("plain") == "plain");
  CHECK(csv_text("a,b") == "\"a,b\"");
  CHECK(csv_text("say \"x\"") == "\"say \"\"x\"\"\"");
}

TEST_CASE("no text of CSV is a formula, and numbers stay numbers", "[figures]") {
  CHECK(csv_text("=1+1") == "'=1+1");
  CHECK(csv_text("+a") == "'+a");
  CHECK(csv_text("-a") == "'-a");
  CHECK(csv_text("@SUM(1)") == "'@SUM(1)");
  CHECK(csv_text("=HYPERLINK(\"x\",1)") == "\"'=HYPERLINK(\"\"x\"\",1)\"");
  CHECK(csv_text("\t=1") == "'\t=1");
  CHECK(csv_text("-1.5e-3") == "-1.5e-3");
  CHECK(csv_text("+2") == "+2");
  CHECK(csv_text("-2+cmd") == "'-2+cmd");
  CHECK(csv_text("-") == "-");
  CHECK(csv_text("a=1") == "a=1");
}
