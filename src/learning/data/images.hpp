// SPDX-License-Identifier: Apache-2.0
// Pictures as arrays: one input "images" (n, h, w, c) of normalised floats, channels last, as the
// networks want them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/catalogue.hpp"
#include "data/batch.hpp"

namespace eqt::data {

struct ImageShape {
  int channels = 0;
  int height = 0;  // [pixels]
  int width = 0;   // [pixels]
  std::size_t values() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
           static_cast<std::size_t>(width);
  }
  bool operator==(const ImageShape&) const = default;
};

/// The name of an array of pictures; networks see it as (n, c, h, w).
inline constexpr std::string_view kImages = "images";

ArraySpec image_spec(const ImageShape& shape);
/// A class for each sample, in [0, classes).
ArraySpec class_spec(int classes);

/// The pictures' shape if `spec` is that of pictures, or if they are the only one of `inputs`.
std::optional<ImageShape> image_shape(const ArraySpec& spec);
std::optional<ImageShape> image_shape(std::span<const ArraySpec> inputs);
/// Returns the shape of a batch's pictures, or nothing for a batch without pictures.
std::optional<ImageShape> image_shape(const Batch& batch);

/// Tells how a training picture is cropped where it is augmented.
enum class CropKind : std::uint8_t { automatic, resized, padded };
std::span<const Named<CropKind>> names_of(CropKind);

/// Border says what is around a training picture that is shifted.
enum class Border : std::uint8_t { black, reflect };
std::span<const Named<Border>> names_of(Border);

/// The place within [0, length) that a place up to length - 1 outside shows where the border
/// reflects: it repeats no pixel.
constexpr int reflected(int at, int length) {
  return at < 0 ? -at : at < length ? at : 2 * length - 2 - at;
}

/// Flips says which training pictures are mirrored: a half that is drawn anew in each epoch, or in
/// every second epoch a half that is drawn once, in the others the rest (K. Jordan,
/// arXiv:2404.00498, section 3.6), so that two epochs together show each picture in both ways.
enum class Flips : std::uint8_t { random, alternating, none };
std::span<const Named<Flips>> names_of(Flips);

/// Pixels of border on each side before the crop, as is usual for 32 x 32 images.
inline constexpr int kCropPadding = 4;

/// Shifts and flips of training pictures in memory.
struct Augmentation {
  static constexpr int kMostShift = 16;
  int shift = kCropPadding;  // [pixels] at most, in each direction
  Border border = Border::black;
  Flips flips = Flips::random;
};

/// All pictures of a set are brought to this form.
struct PictureFraming {
  int channels = 3;  // 1: grey, 3: red, green, blue
  int size = 224;    // [pixels] of a side
  int resize = 256;  // [pixels] of the shorter side, of which a test picture shows the centre
  CropKind crop = CropKind::resized;  // not automatic

  ImageShape shape() const { return {channels, size, size}; }
  std::size_t values() const { return shape().values(); }
  bool operator==(const PictureFraming&) const = default;
};

/// These keys of the config say how pictures of the user's own become samples.
struct PictureOptions {
  int size = 224;    // [pixels] of a side
  int channels = 3;  // 1: grey, 3: red, green, blue
  CropKind crop = CropKind::automatic;
  std::vector<double> mean = {};       // (channels), as fractions of 255; empty = measured
  std::vector<double> deviation = {};  // likewise
  std::size_t skip_limit = 10;         // broken pictures that are put up with
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;  // for decoded pictures
};

}  // namespace eqt::data
