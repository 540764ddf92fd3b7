// SPDX-License-Identifier: Apache-2.0
#include "figures/inline_svg.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "figures/colours.hpp"
#include "figures/text.hpp"

namespace eqt::figures {
namespace {

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// `text` without its elements of one name, in one pass, because a drawing may have thousands of
/// them.
std::string without_elements(std::string_view text, const std::string& name) {
  const std::string begin = "<" + name + ">", end = "</" + name + ">";
  std::string kept;
  for (std::size_t at = 0;;) {
    const std::size_t first = text.find(begin, at);
    kept += text.substr(at, first - at);
    if (first == std::string_view::npos) return kept;
    const std::size_t last = text.find(end, first);
    EQT_CHECK(last != std::string_view::npos, "SVG: an open {}", name);
    at = last + end.size();
  }
}

/// A tag for a page: with unique names, and without a white background.
std::string page_tag(std::string_view tag, std::string_view prefix) {
  std::string text =
      replace_all(std::string(tag), "xlink:href='#", fmt::format("href='#{}", prefix));
  text = replace_all(text, " id='", fmt::format(" id='{}", prefix));
  text = replace_all(text, " id=\"", fmt::format(" id=\"{}", prefix));
  text = replace_all(text, "url(#", fmt::format("url(#{}", prefix));
  return replace_all(text, "fill=\"#ffffff\"", "fill=\"none\"");
}

/// The text between the first tag and the last.
std::string_view content_of(std::string_view file, std::string_view& open_tag) {
  const std::size_t begin = file.find("<svg"), end = file.rfind("</svg>");
  EQT_CHECK(begin != std::string_view::npos && end != std::string_view::npos && begin < end,
            "gnuplot's SVG has no beginning or no end");
  const std::size_t content = file.find('>', begin) + 1;
  EQT_CHECK(content <= end, "gnuplot's SVG has no content");
  open_tag = file.substr(begin, content - begin);
  return file.substr(content, end - content);
}

/// viewBox="0 0 640 420", or empty.
std::string_view view_box_of(std::string_view open_tag) {
  const std::size_t begin = open_tag.find("viewBox=\"");
  if (begin == std::string_view::npos) return "";
  return open_tag.substr(begin, open_tag.find('"', begin + 9) + 1 - begin);
}

/// Rules for a reader whose pages are dark: gnuplot's white and black become those of such a page.
std::string dark_style() {
  return fmt::format(
      "<style>@media (prefers-color-scheme: dark) {{ [fill=\"{0}\"] {{ fill: {1}; }} "
      "[fill=\"black\"] {{ fill: {2}; }} [stroke=\"black\"] {{ stroke: {2}; }} "
      "[color=\"black\"] {{ color: {2}; }} }}</style>\n",
      kLightPage, kDarkPage, kDarkInk);
}

}  // namespace

std::string inline_svg(std::string_view file, std::string_view prefix, std::string_view title,
                       std::string_view description) {
  std::string_view open_tag;
  // The page's own style has the colours of dark pages, and one in a picture would count for all.
  const std::string content = without_elements(
      without_elements(without_elements(content_of(file, open_tag), "title"), "desc"), "style");
  EQT_CHECK(content.find("<script") == std::string::npos, "gnuplot's SVG has a script");
  std::string svg = fmt::format(
      "<svg {0} role=\"img\" aria-labelledby=\"{1}title {1}desc\">\n<title "
      "id=\"{1}title\">{2}</title>\n<desc id=\"{1}desc\">{3}</desc>",
      view_box_of(open_tag), prefix, html_text(title), html_text(description));
  // Only tags are changed, because a label may look like an attribute.
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t begin = std::min(content.find('<', at), content.size());
    const std::size_t end = std::min(content.find('>', begin), content.size() - 1) + 1;
    svg += content.substr(at, begin - at);
    if (begin < content.size()) svg += page_tag(content.substr(begin, end - begin), prefix);
    at = std::max(begin, end);
  }
  return svg + "</svg>\n";
}

std::string described_svg(std::string_view file, std::string_view title,
                          std::string_view description) {
  std::string_view open_tag;
  const std::string_view content = content_of(file, open_tag);
  std::string svg(file.substr(0, static_cast<std::size_t>(content.data() - file.data())));
  svg += fmt::format("\n<title>{}</title>\n<desc>{}</desc>\n", html_text(title),
                     html_text(description));
  svg += dark_style();
  svg += without_elements(without_elements(content, "title"), "desc");
  return svg + "</svg>\n";
}

}  // namespace eqt::figures
