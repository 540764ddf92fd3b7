// SPDX-License-Identifier: Apache-2.0
#include "report/page.hpp"

#include <fmt/format.h>

#include "report/inline_svg.hpp"
#include "report/page_style.hpp"
#include "report/text.hpp"

namespace eqt::report {
namespace {

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

}  // namespace eqt::report
