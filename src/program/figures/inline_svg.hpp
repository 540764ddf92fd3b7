// SPDX-License-Identifier: Apache-2.0
// Embeds gnuplot's SVG into a page.

#pragma once

#include <string>
#include <string_view>

namespace eqt::figures {

/// An <svg> element for HTML from a file of gnuplot: with `prefix` before its names, title and
/// description for people who cannot see it, and without background, links and scripts.
/// @throws Error{bug} if the text holds no complete SVG
std::string inline_svg(std::string_view file, std::string_view prefix, std::string_view title,
                       std::string_view description);

/// The file itself with its title and description in place of gnuplot's, and with the colours of a
/// dark page for readers who have asked their system for such pages.
std::string described_svg(std::string_view file, std::string_view title,
                          std::string_view description);

}  // namespace eqt::figures
