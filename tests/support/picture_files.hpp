// SPDX-License-Identifier: Apache-2.0
// Writes pictures as files in memory, by the libraries that the program reads them with.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace eqt::test {

using Bytes = std::vector<std::uint8_t>;

/// Pixels (height, width, channels).
struct TestPicture {
  int width = 0;
  int height = 0;
  int channels = 3;
  Bytes pixels;

  std::uint8_t at(int x, int y, int c) const {
    return pixels[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
};

/// Each value by (x, y, channel).
TestPicture make_picture(int width, int height, int channels,
                         const std::function<int(int, int, int)>& value);
/// Smooth colours with edges, as a photograph has them.
TestPicture make_scene(int width, int height, int channels = 3, unsigned seed = 1);

struct JpegSettings {
  int quality = 90;
  int chroma_width = 2, chroma_height = 2;  // pixels per value of colour; 1 and 1: all of them
  bool progressive = false;
  bool cmyk = false;    // `channels` is 4
  int orientation = 0;  // EXIF's tag; 0 = none
  bool adobe = true;    // cmyk: with Adobe's marker, so inverted
};
Bytes jpeg_of(const TestPicture& picture, const JpegSettings& settings = {});

struct PngSettings {
  int depth = 8;         // bits of a value; pixels hold `depth` bits, of 16 the upper byte twice
  bool palette = false;  // each grey value is an entry (value, 255 - value, value / 2)
  int transparent = -1;  // palette: this entry
  bool interlaced = false;
  int orientation = 0;
};
/// channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA
Bytes png_of(const TestPicture& picture, const PngSettings& settings = {});

/// Lossless; 3 or 4 channels.
Bytes webp_of(const TestPicture& picture, int orientation = 0);

/// EXIF data with one tag, little or big endian.
Bytes exif_of(int orientation, bool big_endian = false);

/// A tar archive of the ustar format, member by member.
class TarBytes {
 public:
  void add(const std::string& name, std::span<const std::uint8_t> content, char type = '0',
           const std::string& link = "");
  void add(const std::string& name, const std::string& content) {
    add(name, {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()});
  }
  /// With the end mark.
  Bytes bytes() const;

 private:
  Bytes bytes_;
};

void write_file(const std::string& path, std::span<const std::uint8_t> bytes);

}  // namespace eqt::test
