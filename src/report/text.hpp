// SPDX-License-Identifier: Apache-2.0
// Words from outside, made harmless for the places where a report shows them.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace eqt::report {

/// Valid UTF-8 without control characters or marks that turn the direction of writing: each is
/// replaced by U+FFFD. What a report reads passes here first.
std::string visible(std::string_view text);

/// Characters of UTF-8 text, as columns of a terminal.
std::size_t width_of(std::string_view text);

/// At most `most` characters; what is cut away leaves an ellipsis.
std::string shortened(std::string_view text, std::size_t most);

/// As content or attribute of HTML.
std::string html_text(std::string_view text);
/// As a cell of a Markdown table.
std::string markdown_text(std::string_view text);
/// As text of LaTeX that any engine reads, with no package.
std::string latex_text(std::string_view text);
/// As a field of CSV (RFC 4180), quoted where needed.
std::string csv_text(std::string_view text);

}  // namespace eqt::report
