// SPDX-License-Identifier: Apache-2.0
#include "metrics/png.hpp"

#include <png.h>

#include "core/error.hpp"

namespace eqt::metrics {

std::string png_of(const ImageRecord& image) {
  EQT_CHECK(image.channels == 1 || image.channels == 3, "an image of {} channels", image.channels);
  const auto values = static_cast<std::size_t>(image.width) *
                      static_cast<std::size_t>(image.height) *
                      static_cast<std::size_t>(image.channels);
  EQT_CHECK(image.pixels.size() == values, "{} values for an image of {}", image.pixels.size(),
            values);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string png(bytes, '\0');
  const int written =
      png_image_write_to_memory(&header, png.data(), &bytes, 0, image.pixels.data(), 0, nullptr);
  EQT_CHECK(written != 0, "libpng: {}", header.message);
  png.resize(bytes);
  return png;
}

}  // namespace eqt::metrics
