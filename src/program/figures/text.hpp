// SPDX-License-Identifier: Apache-2.0
// Escapes text for the formats of tables and pages. Its callers have applied visible() of the core.

#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/visible.hpp"

namespace eqt::figures {

/// Characters of UTF-8 text, as columns of a terminal.
std::size_t width_of(std::string_view text);

/// Returns at most `most` characters; an ellipsis replaces the rest.
std::string shortened(std::string_view text, std::size_t most);
/// Shortens a text and keeps its end: that of a path or of a label, which tells it from others.
std::string tail_of(std::string_view text, std::size_t most);

/// "0, 1, 2, 3, ... (14)": the first four, and how many there are if that is not all.
template <typename T>
std::string first_of(const std::vector<T>& all) {
  constexpr std::ptrdiff_t kShown = 4;
  const auto end = all.begin() + std::min(kShown, std::ssize(all));
  return fmt::format("{}{}", fmt::join(all.begin(), end, ", "),
                     end == all.end() ? "" : fmt::format(", ... ({})", all.size()));
}

/// Escapes text as content or attribute of HTML.
std::string html_text(std::string_view text);
/// Escapes text as a cell of a Markdown table.
std::string markdown_text(std::string_view text);
/// Escapes text as LaTeX that any engine reads, without packages.
std::string latex_text(std::string_view text);
/// Writes text as a field of CSV (RFC 4180), quoted where needed. A spreadsheet would compute what
/// begins with '=', '+', '-', '@', a tab or a carriage return: such a text of several characters
/// that is no number gets an apostrophe before it.
std::string csv_text(std::string_view text);

}  // namespace eqt::figures
