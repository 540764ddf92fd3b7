// SPDX-License-Identifier: Apache-2.0
#include "figures/colours.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "codec/catalogue.hpp"

namespace eqt::figures {
namespace {

// Found by a greedy search: of all colours with enough contrast on both pages, each is the one with
// the largest minimum distance from those before it, in OKLab (B. Ottosson, 2020), with and without
// colour blindness (G. Machado, M. Oliveira, L. Fernandes, IEEE TVCG 15, 2009).
constexpr std::array<std::string_view, 24> kColours = {
    "#0072b2", "#d55e00", "#ff00f0", "#00a500", "#c31e78", "#872dff", "#a587a5", "#69694b",
    "#6987ff", "#ff4b87", "#a55ac3", "#009687", "#d2001e", "#005af0", "#87873c", "#875a87",
    "#1e7800", "#e100b4", "#c35a69", "#c35aff", "#3c96c3", "#b400d2", "#ff0f3c", "#d269c3"};

/// "" if the compressor has none or is unknown, because runs of other builds are read, too.
std::string_view own_colour(std::string_view compressor) {
  const codec::CompressorRow* const row = codec::CompressorRow::all().find(compressor);
  return row != nullptr ? row->colour : "";
}

}  // namespace

std::span<const std::string_view> colours() { return kColours; }

std::string_view colour(std::size_t index) { return kColours[index % kColours.size()]; }

std::string scale_colour(std::size_t index, std::size_t count) {
  using Rgb = std::array<double, 3>;
  constexpr Rgb kFirst = {0xd5, 0x5e, 0x00}, kMiddle = {0x7b, 0x7b, 0x7b}, kLast = {0, 0x72, 0xb2};
  const double at = count > 1 ? 2 * static_cast<double>(index) / static_cast<double>(count - 1) : 2;
  const Rgb& from = at < 1 ? kFirst : kMiddle;
  const Rgb& to = at < 1 ? kMiddle : kLast;
  const double part = at < 1 ? at : at - 1;
  std::string text = "#";
  for (std::size_t i = 0; i < from.size(); ++i)
    text += fmt::format("{:02x}", std::lround(from[i] + part * (to[i] - from[i])));
  return text;
}

bool has_own_colour(std::string_view compressor) { return !own_colour(compressor).empty(); }

std::string_view colour_of(std::string_view compressor) {
  if (const std::string_view own = own_colour(compressor); !own.empty()) return own;
  std::size_t sum = 0;
  for (const char c : compressor) sum = 31 * sum + static_cast<unsigned char>(c);
  return colour(sum);
}

}  // namespace eqt::figures
