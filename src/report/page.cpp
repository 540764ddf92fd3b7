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

void add_section(std::string& html, std::string_view id, std::string_view heading,
                 const std::string& content) {
  if (content.empty()) return;
  html += fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n",
                      id, heading, content);
}

std::string list_of(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string html = "<ul>\n";
  for (const std::string& sentence : sentences) html += "<li>" + html_text(sentence) + "</li>\n";
  return html + "</ul>\n";
}

std::string tables_of(const std::vector<Table>& tables) {
  std::string html;
  for (const Table& table : tables) html += as_html(table);
  return html.empty() ? "" : kScrollHint + html;
}

std::string figure_of(const Picture& picture, std::size_t number) {
  const Drawing& drawing = picture.drawing;
  return fmt::format(
      "<figure>\n{1}<figcaption><details><summary>{0}: in "
      "words</summary><p>{2}</p></details></figcaption>\n"
      "</figure>\n",
      html_text(drawing.title),
      inline_svg(picture.svg, fmt::format("p{}-", number), drawing.title, drawing.description),
      html_text(drawing.description));
}

std::string pictures_of(const Page& page) {
  if (page.pictures.empty()) return "";
  std::string html = "<div class=\"plots\">\n";
  for (std::size_t i = 0; i < page.pictures.size(); ++i) html += figure_of(page.pictures[i], i + 1);
  return html + "</div>\n" + list_of(page.left_out);
}

}  // namespace

std::string as_html(const Page& page) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      html_text(page.title), kPageStyle);
  add_section(html, "warnings", "Read this first", list_of(page.warnings));
  add_section(html, "results", "Results", tables_of(page.results));
  add_section(html, "published", "Beside published values", tables_of(page.published));
  add_section(html, "plots", "Plots", pictures_of(page));
  add_section(html, "background", "How the runs were made", tables_of(page.background));
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace eqt::report
