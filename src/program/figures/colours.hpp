// SPDX-License-Identifier: Apache-2.0
// The colours of plots: each has a contrast of at least 3 to 1 on a white page and on a dark one.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace eqt::figures {

// "#rrggbb": the backgrounds of page_style(), and text on the dark one.
inline constexpr std::string_view kLightPage = "#ffffff", kDarkPage = "#16181b";
inline constexpr std::string_view kDarkInk = "#e8e8e8";

// Grids have this colour, and everything that belongs to no group.
inline constexpr std::string_view kNeutral = "#7b7b7b";

/// Colours that colour-blind people can distinguish, too; the first ones differ most.
std::span<const std::string_view> colours();

/// One for each index, repeated from the start.
std::string_view colour(std::size_t index);

/// The place of `index` on a scale of `count` colours from orange by grey to blue, "#rrggbb".
std::string scale_colour(std::size_t index, std::size_t count);

/// True if the compressor's row has a colour: one of colours(), the same in every plot.
bool has_own_colour(std::string_view compressor);

/// A compressor's own colour. One without, such as a plugin, always gets the same of colours().
std::string_view colour_of(std::string_view compressor);

/// The style of a line and its points; in a report, of a group in all plots.
struct Style {
  std::string_view colour;
  std::size_t dash = 0;   // distinguishes lines of one colour
  std::size_t shape = 0;  // of points
};

}  // namespace eqt::figures
