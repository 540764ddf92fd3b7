// SPDX-License-Identifier: Apache-2.0
// Escapes text from files for the formats of a report.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace eqt::report {

/// Valid UTF-8 without control characters or marks that change the direction of writing; each is
/// replaced by U+FFFD. Applied to everything that a report reads.
std::string visible(std::string_view text);

/// Characters of UTF-8 text, as columns of a terminal.
std::size_t width_of(std::string_view text);

/// At most `most` characters; an ellipsis replaces the rest.
std::string shortened(std::string_view text, std::size_t most);

/// As content or attribute of HTML.
std::string html_text(std::string_view text);
/// As a cell of a Markdown table.
std::string markdown_text(std::string_view text);
/// As LaTeX text that any engine reads, without packages.
std::string latex_text(std::string_view text);
/// As a field of CSV (RFC 4180), quoted where needed.
std::string csv_text(std::string_view text);

}  // namespace eqt::report
