// gnuplot's SVG, made part of a page.

#pragma once

#include <string>
#include <string_view>

namespace eqt::report {

/// An <svg> element for HTML from a file of gnuplot's: names `prefix` + its own, title and
/// description for those who cannot see it, no background, no link and no scripts.
/// @throws Error{bug} if the text holds no complete SVG
std::string inline_svg(std::string_view file, std::string_view prefix, std::string_view title,
                       std::string_view description);

/// The file itself with its title and description in place of gnuplot's.
std::string described_svg(std::string_view file, std::string_view title,
                          std::string_view description);

}  // namespace eqt::report
