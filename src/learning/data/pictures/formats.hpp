// SPDX-License-Identifier: Apache-2.0
// What the picture formats share: each has a source file of its own, which alone knows its library.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/pictures/picture.hpp"

namespace eqt::data {

using PictureBytes = std::span<const std::uint8_t>;

/// @throws Error{data} as open_picture
std::unique_ptr<Picture> open_jpeg(PictureBytes file, const PictureLimits& limits);
std::unique_ptr<Picture> open_png(PictureBytes file, const PictureLimits& limits);
std::unique_ptr<Picture> open_webp(PictureBytes file, const PictureLimits& limits);

/// The orientation tag of EXIF data, which are a TIFF file's bytes; 1 where there is none.
int orientation_of(PictureBytes tiff);

/// Converts `count` pixels of grey, grey with alpha, RGB or RGBA (1 to 4 values) to 1 or 3
/// channels,
/// with white behind what is transparent. `out` may be `in` where it has no more channels.
void convert_pixels(const std::uint8_t* in, int in_channels, std::size_t count, int channels,
                    std::uint8_t* out);

/// Space for the part `area` of an unreduced picture in `out`.
/// @return the number of its values
std::size_t make_part(const PixelArea& area, int channels, PicturePart& out);

}  // namespace eqt::data
