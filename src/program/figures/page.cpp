// SPDX-License-Identifier: Apache-2.0
#include "figures/page.hpp"

#include <fmt/format.h>

#include "figures/inline_svg.hpp"
#include "figures/text.hpp"

namespace eqt::figures {
namespace {

// gnuplot writes black and white as attributes; these rules override them.
constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #f2f4f6; --line: #c6ccd2;
  --shade: #0005; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #16181b; --soft: #22262b; --line: #454c54;
    --shade: #fff6; }
}
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 84rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem; }
p, li { max-width: 60rem; overflow-wrap: anywhere; }
ul { padding-left: 1.25rem; }
nav { font-size: 0.9rem; }
a { color: inherit; }
.hint { display: none; font-size: 0.9rem; }
/* Shadows at the ends of what scrolls; the page's own colour, moving along, covers them there. */
.scroll { overflow-x: auto; background:
  linear-gradient(to right, var(--paper) 30%, transparent) left / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--paper) 30%, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 0.8rem 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 0.8rem 100% no-repeat scroll; }
.scroll:focus-visible { outline: 2px solid #0072b2; }
table { border-collapse: separate; border-spacing: 0; font-size: 0.9rem; margin: 0.75rem 0; }
caption { text-align: left; font-weight: 600; padding: 0.25rem 0; }
caption span { display: inline-block; position: sticky; left: 0; max-width: calc(100vw - 2.5rem); }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
thead th { background: var(--soft); vertical-align: bottom; }
tbody th { font-weight: 600; min-width: 8rem; max-width: 22rem; overflow-wrap: anywhere;
  background: var(--paper); }
tbody th, thead th:first-child { position: sticky; left: 0; }
tbody tr:hover > * { background: var(--soft); }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
thead .n { white-space: normal; }
.plots { display: grid; gap: 1.25rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; min-width: 0; border: 1px solid var(--line); border-radius: 0.4rem;
  padding: 0.5rem; }
figure svg { display: block; width: 100%; height: auto; }
figure svg [fill="black"] { fill: var(--ink); }
figure svg [stroke="black"] { stroke: var(--ink); }
figure svg [color="black"] { color: var(--ink); }
figure svg [color="#FFFFFF"] { color: var(--paper); }
figcaption { font-size: 0.85rem; }
@media (max-width: 40rem) {
  main { padding: 0.6rem; }
  .hint { display: block; }
  th, td { padding: 0.3rem 0.4rem; }
  tbody th { min-width: 8rem; max-width: 9rem; overflow-wrap: break-word; }
  figure { padding: 0.25rem; }
}
@media print { .scroll { overflow: visible; } }
)css";

// Shown on narrow screens.
const std::string kScrollHint =
    "<p class=\"hint\">Tables wider than the screen scroll sideways.</p>\n";

/// A part of the page and what it has, for the table of contents.
struct Section {
  struct Entry {
    std::string id, text;
  };
  std::string_view id, heading;
  std::string content;
  std::vector<Entry> entries;
};

void add_section(std::string& html, const Section& section) {
  if (section.content.empty()) return;
  html += fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n",
                      section.id, section.heading, section.content);
}

/// One line for each section, with its tables or plots.
std::string contents_of(const std::vector<Section>& sections) {
  const auto link = [](std::string_view id, const std::string& text) {
    return fmt::format("<a href=\"#{}\">{}</a>", id, text);
  };
  std::string html = "<nav aria-label=\"Contents\">\n<ul>\n";
  for (const Section& section : sections) {
    if (section.content.empty()) continue;
    html += "<li>" + link(section.id, std::string(section.heading));
    for (std::size_t i = 0; i < section.entries.size(); ++i)
      html +=
          (i == 0 ? ": " : " · ") + link(section.entries[i].id, html_text(section.entries[i].text));
    html += "</li>\n";
  }
  return html + "</ul>\n</nav>\n";
}

std::string list_of(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string html = "<ul>\n";
  for (const std::string& sentence : sentences) html += "<li>" + html_text(sentence) + "</li>\n";
  return html + "</ul>\n";
}

Section section_of(std::string_view id, std::string_view heading,
                   const std::vector<Table>& tables) {
  Section section{id, heading, "", {}};
  for (const Table& table : tables) {
    const std::string place = fmt::format("{}-{}", id, section.entries.size() + 1);
    section.content += fmt::format("<div id=\"{}\">\n{}</div>\n", place, as_html(table));
    section.entries.push_back({place, table.name});
  }
  if (!section.content.empty()) section.content.insert(0, kScrollHint);
  return section;
}

std::string figure_of(const Picture& picture, std::size_t number) {
  const Drawing& drawing = picture.drawing;
  return fmt::format(
      "<figure id=\"plot-{3}\">\n{1}<figcaption><details><summary>{0}: in "
      "words</summary><p>{2}</p></details></figcaption>\n"
      "</figure>\n",
      html_text(drawing.title),
      inline_svg(picture.svg, fmt::format("p{}-", number), drawing.title, drawing.description),
      html_text(drawing.description), number);
}

Section pictures_of(const Page& page) {
  Section section{"plots", "Plots", "", {}};
  if (page.pictures.empty()) return section;
  for (std::size_t i = 0; i < page.pictures.size(); ++i) {
    section.content += figure_of(page.pictures[i], i + 1);
    section.entries.push_back({fmt::format("plot-{}", i + 1), page.pictures[i].drawing.title});
  }
  section.content =
      "<div class=\"plots\">\n" + section.content + "</div>\n" + list_of(page.left_out);
  return section;
}

}  // namespace

std::string_view page_style() { return kPageStyle; }

std::string as_html(const Page& page) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      html_text(page.title), kPageStyle);
  const std::vector<Section> sections = {
      {"warnings", "Read this first", list_of(page.warnings), {}},
      section_of("results", "Results", page.results),
      section_of("published", "Beside published values", page.published),
      pictures_of(page),
      section_of("background", "How it was made", page.background)};
  html += contents_of(sections);
  for (const Section& section : sections) add_section(html, section);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace eqt::figures
