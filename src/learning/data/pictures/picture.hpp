// SPDX-License-Identifier: Apache-2.0
// Pictures in JPEG, PNG and WebP files. What a file is shows in its first bytes, not in its name.
//
// Everything in a file may be wrong. A broken one is Error{data} whose text is a reason without the
// file's name ("the file ends too early"): who knows the name adds it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace eqt::data {

/// A small file can unpack to a picture that fills the memory, so larger ones are refused before
/// anything is allocated.
struct PictureLimits {
  std::uint64_t max_pixels = std::uint64_t{1} << 26;  // 8192 x 8192
};

/// A rectangle of whole pixels.
struct PixelArea {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  bool operator==(const PixelArea&) const = default;
};

/// A part of a picture. Its pixel (x, y) shows the picture's pixels from reduction (left + x),
/// reduction (top + y) on, `reduction` of them in each direction.
struct PicturePart {
  std::vector<std::uint8_t> pixels = {};  // (height, width, channels)
  int channels = 0;                       // 1: grey, 3: red, green, blue
  int height = 0;
  int width = 0;
  int left = 0;  // in reduced pixels, as `top`
  int top = 0;
  int reduction = 1;  // 1, 2, 4 or 8
};

/// A picture in a file's bytes, of which only the beginning has been read.
class Picture {
 public:
  virtual ~Picture() = default;
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  /// The sides [pixels] are those of the picture as it is shown, turned as its orientation tag
  /// says.
  int width() const { return turns_sideways() ? stored_height_ : stored_width_; }
  int height() const { return turns_sideways() ? stored_width_ : stored_height_; }

  /// Decodes at least `area` into `out`, whose memory is reused. Where the format can decode at a
  /// fraction of the size at less cost, the part is reduced as far as `area` keeps at least
  /// `min_side` pixels in both directions.
  ///
  /// Colours become grey by ITU-R 601's weights; transparent pixels are laid on white; 16 bits are
  /// rounded to 8; colour profiles are ignored. May be called once.
  /// @pre `area` lies in the picture; channels is 1 or 3; min_side >= 1
  /// @throws Error{data}
  void decode(const PixelArea& area, int min_side, int channels, PicturePart& out);

  /// Decodes the last row, and so all data that any area may need. In place of decode().
  /// @throws Error{data}
  void require_whole();

 protected:
  Picture() = default;

  /// To be called once, by the constructor of the format, before anything is allocated for pixels.
  /// @param orientation EXIF's tag; anything but 2 ... 8 is "as stored"
  /// @throws Error{data} for sizes beyond the limits
  void describe(std::uint64_t width, std::uint64_t height, int orientation,
                const PictureLimits& limits);

  int stored_width() const { return stored_width_; }
  int stored_height() const { return stored_height_; }

 private:
  bool turns_sideways() const { return orientation_ >= 5; }
  virtual bool can_reduce() const { return false; }
  /// Decodes as decode() does, but the picture as it is stored, at exactly this reduction.
  virtual void decode_stored(const PixelArea& area, int reduction, int channels,
                             PicturePart& out) = 0;

  int stored_width_ = 0;
  int stored_height_ = 0;
  int orientation_ = 1;  // 1 ... 8
};

/// Reads the beginning of a picture's file; `file` must outlive the result.
/// @throws Error{data}: not a picture of these formats, broken, or beyond the limits
std::unique_ptr<Picture> open_picture(std::span<const std::uint8_t> file,
                                      const PictureLimits& limits = {});

// The rest is what the picture formats share. Each has a source file of its own, which alone knows
// its library.

using PictureBytes = std::span<const std::uint8_t>;

/// @throws Error{data} as open_picture
std::unique_ptr<Picture> open_jpeg(PictureBytes file, const PictureLimits& limits);
std::unique_ptr<Picture> open_png(PictureBytes file, const PictureLimits& limits);
std::unique_ptr<Picture> open_webp(PictureBytes file, const PictureLimits& limits);

/// The orientation tag of EXIF data, which are a TIFF file's bytes; 1 where there is none. Source:
/// CIPA DC-008 (Exif 2.3), sections 4.5.2 and 4.6.4: a TIFF header, then the first directory.
int orientation_of(PictureBytes tiff);

/// Converts `count` pixels of grey, grey with alpha, RGB or RGBA (1 to 4 values) to 1 or 3
/// channels, with white behind what is transparent. `out` may be `in` where it has no more
/// channels.
void convert_pixels(const std::uint8_t* in, int in_channels, std::size_t count, int channels,
                    std::uint8_t* out);

/// Space for the part `area` of an unreduced picture in `out`.
/// @return the number of its values
std::size_t make_part(const PixelArea& area, int channels, PicturePart& out);

}  // namespace eqt::data
