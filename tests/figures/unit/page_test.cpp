// SPDX-License-Identifier: Apache-2.0
#include "figures/page.hpp"

#include "core/error.hpp"
#include "figures/inline_svg.hpp"
#include "support/catch.hpp"
#include "support/html_check.hpp"

using namespace eqt;
using namespace eqt::figures;

namespace {

// Output of gnuplot 5.4, shortened.
const std::string kSvg = R"svg(<?xml version="1.0" encoding="utf-8"  standalone="no"?>
<svg 
 width="640" height="420"
 viewBox="0 0 640 420"
 xmlns="http://www.w3.org/2000/svg"
 xmlns:xlink="http://www.w3.org/1999/xlink"
>

<title>Gnuplot</title>
<desc>Produced by GNUPLOT 5.4 patchlevel 4 </desc>

<g id="gnuplot_canvas">
<rect x="0" y="0" width="640" height="420" fill="#ffffff"/>
<defs>
	<circle id='gpDot' r='0.5' stroke-width='0.5' stroke='currentColor'/>
	<use xlink:href='#gpDot' id='gpPt6' fill='currentColor' stroke='none'/>
</defs>
<g fill="none" filter="url(#textbox)"><title>gnuplot_plot_1</title>
<text>say id='x' &lt;b></text></g>
</g>
</svg>
)svg";

Page small_page() {
  Page page;
  page.title = "runs of <script>alert(1)</script>";
  page.warnings = {"one & \"two\""};
  Table table{"t<1", "a caption", {{"a", "a"}}, {{text_cell("<img alt=x>")}}, {"a note"}};
  page.results = {table};
  page.pictures = {{{"p", "a plot <i>", "its words", "", 420}, kSvg},
                   {{"q", "another", "more words", "", 420}, kSvg}};
  page.left_out = {"no plot of x"};
  return page;
}

}  // namespace

TEST_CASE("a drawing in a page has unique names, a description and no white background",
          "[figures]") {
  const std::string svg = inline_svg(kSvg, "p3-", "a < b", "more");
  CHECK(svg.find("viewBox=\"0 0 640 420\" role=\"img\" aria-labelledby=\"p3-title p3-desc\"") !=
        std::string::npos);
  CHECK(svg.find("<title id=\"p3-title\">a &lt; b</title>") != std::string::npos);
  CHECK(svg.find("id='p3-gpDot'") != std::string::npos);
  CHECK(svg.find(" href='#p3-gpDot'") != std::string::npos);
  CHECK(svg.find("url(#p3-textbox)") != std::string::npos);
  CHECK(svg.find("say id='x' &lt;b>") != std::string::npos);  // a label is no attribute
  CHECK(svg.find("http") == std::string::npos);
  CHECK(svg.find("#ffffff") == std::string::npos);
  CHECK(svg.find("gnuplot_plot_1") == std::string::npos);
}

TEST_CASE("a drawing's file has a title and a description", "[figures]") {
  const std::string svg = described_svg(kSvg, "a < b", "more");
  CHECK(svg.starts_with("<?xml"));
  CHECK(svg.find("<title>a &lt; b</title>\n<desc>more</desc>") != std::string::npos);
  CHECK(svg.find("Gnuplot") == std::string::npos);
  CHECK(test::unbalanced_tag(svg.substr(svg.find("<svg"))) == "");
  // It has the colours of a dark page, which stay outside pages with a style of their own.
  CHECK(svg.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(inline_svg(svg, "p", "a", "b").find("<style") == std::string::npos);
}

TEST_CASE("a malformed drawing is a bug", "[figures]") {
  CHECK_THROWS_AS(inline_svg("<svg", "p", "", ""), Error);
  CHECK_THROWS_AS(inline_svg("", "p", "", ""), Error);
  CHECK_THROWS_AS(inline_svg("<svg><script></script></svg>", "p", "", ""), Error);
}

TEST_CASE("a page has balanced tags, needs no other file and runs no script", "[figures]") {
  const std::string html = as_html(small_page());
  CHECK(test::unbalanced_tag(html) == "");
  CHECK(test::repeated_id(html) == "");
  for (const char* word : {"http", "<script", "src=", "<link", "@import", "url(h", "<img"})
    CHECK(html.find(word) == std::string::npos);
  CHECK(html.find("runs of &lt;script&gt;alert(1)") != std::string::npos);
  CHECK(html.find("&lt;img alt=x&gt;") != std::string::npos);
}

TEST_CASE("a page begins with links to all that it has", "[figures]") {
  const std::string html = as_html(small_page());
  const std::string contents =
      html.substr(html.find("<nav"), html.find("</nav>") - html.find("<nav"));
  CHECK(contents.find("<a href=\"#results-1\">t&lt;1</a>") != std::string::npos);
  CHECK(contents.find("<a href=\"#plot-2\">another</a>") != std::string::npos);
  CHECK(contents.find("Beside published values") == std::string::npos);  // there are none
  // Every link leads to an element of the page.
  std::size_t links = 0;
  for (std::size_t at = 0; (at = contents.find("href=\"#", at)) != std::string::npos; ++links) {
    at += 7;
    const std::string id = contents.substr(at, contents.find('"', at) - at);
    INFO(id);
    CHECK(html.find(" id=\"" + id.substr(0) + "\"") != std::string::npos);
  }
  CHECK(links == 6);  // three sections, a table, two plots
}

TEST_CASE("a page is readable on a telephone, in dark mode and by a screen reader", "[figures]") {
  const std::string html = as_html(small_page());
  CHECK(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
  CHECK(html.find("name=\"viewport\" content=\"width=device-width, initial-scale=1\"") !=
        std::string::npos);
  CHECK(html.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(test::count_of(html, "<table>") == test::count_of(html, "<caption"));
  CHECK(test::count_of(html, "<svg ") == 2);
  CHECK(test::count_of(html, "role=\"img\"") == 2);
  CHECK(test::count_of(html, "<th>") == 0);
  CHECK(test::count_of(html, "<h1>") == 1);
  // Plots shrink to the width; for tables, which do not, a sentence says that they scroll.
  CHECK(html.find("min-width: 30rem") == std::string::npos);
  CHECK(html.find("figure svg { display: block; width: 100%; height: auto; }") !=
        std::string::npos);
  CHECK(html.find("<p class=\"hint\">") != std::string::npos);
}

TEST_CASE("without plots there is no heading for them", "[figures]") {
  Page page = small_page();
  CHECK(as_html(page).find(">Plots</h2>") != std::string::npos);
  page.pictures.clear();
  CHECK(as_html(page).find("Plots") == std::string::npos);
}
