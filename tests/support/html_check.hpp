// SPDX-License-Identifier: Apache-2.0
// Checks the properties of a report's page without a browser.

#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::test {

/// The first tag that is not balanced; empty if all are.
inline std::string unbalanced_tag(std::string_view html) {
  const std::set<std::string, std::less<>> voids = {"meta", "!DOCTYPE", "br", "hr", "img", "link"};
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = html.find('<', at)) != std::string_view::npos;) {
    const std::size_t end = html.find('>', at);
    if (end == std::string_view::npos) return "<";
    std::string_view tag = html.substr(at + 1, end - at - 1);
    at = end + 1;
    const bool closes = tag.starts_with('/');
    if (closes) tag.remove_prefix(1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n\t/")));
    if (closes) {
      if (open.empty() || open.back() != name) return "/" + name;
      open.pop_back();
    } else if (!voids.contains(name) && !tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back();
}

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++count;
  return count;
}

/// An id that two elements have; empty if all are unique.
inline std::string repeated_id(std::string_view html) {
  std::set<std::string> seen;
  for (std::size_t at = 0; (at = html.find('<', at)) != std::string_view::npos;) {
    const std::string_view tag = html.substr(at, html.find('>', at) - at);
    at += tag.size();
    for (const std::string_view mark : {" id=\"", " id='"}) {
      const std::size_t found = tag.find(mark);
      if (found == std::string_view::npos) continue;
      const std::size_t begin = found + mark.size();
      const std::string id(tag.substr(begin, tag.find(mark.back(), begin) - begin));
      if (!seen.insert(id).second) return id;
    }
  }
  return "";
}

}  // namespace eqt::test
