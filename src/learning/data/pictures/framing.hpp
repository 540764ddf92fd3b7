// SPDX-License-Identifier: Apache-2.0
// Which part of a picture becomes the network's input, and how.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/images.hpp"
#include "data/pictures/picture.hpp"
#include "data/pictures/resize.hpp"

namespace eqt::data {

/// Small pictures (below 64 pixels) are cropped from a frame of black, as CIFAR's are, and tested
/// whole; large ones are cropped at random places and sizes, and tested at 7/8 of the shorter side.
PictureFraming framing_of(int channels, int size, CropKind crop);

/// The part of a training picture: for 10 tries an area of 8 to 100 % of the picture with a ratio
/// of 3/4 to 4/3 until it fits, then the largest such part in the middle.
///
/// Source   C. Szegedy et al., "Going deeper with convolutions", 2015, section 6; as torchvision's
///          RandomResizedCrop
struct DrawnCrop {
  PixelArea area;
  bool mirrored = false;
};

/// A pure function of its arguments.
DrawnCrop draw_resized_crop(const AugmentKey& key, std::size_t sample, int width, int height);

/// A test picture's part: resized so that its shorter side has framing.resize pixels, of which the
/// middle framing.size are shown; torchvision's Resize and CenterCrop in one.
Sampling centre_of(const PictureFraming& framing, int width, int height);

/// The normalised value of each byte, by channel.
class PixelTables {
 public:
  explicit PixelTables(const Normalization& normalization);
  /// @param bytes (n, channels); out: as many floats
  void write(std::span<const std::uint8_t> bytes, float* out) const;

 private:
  std::vector<std::vector<float>> tables_;  // (channels, 256)
};

/// Turns the bytes of picture files into test inputs, one at a time.
class PicturePreparation {
 public:
  PicturePreparation(const PictureFraming& framing, const Normalization& normalization,
                     const PictureLimits& limits = {});

  const PictureFraming& framing() const { return framing_; }
  /// Writes one image (h, w, c), normalised: what a Dataset's read() gives for a test picture.
  /// @param out framing().values() floats
  /// @throws Error{data} with a reason, without a name, for a file that is not a whole picture
  void prepare(std::span<const std::uint8_t> file, std::span<float> out);

 private:
  PictureFraming framing_;
  PixelTables tables_;
  PictureLimits limits_;
  PicturePart part_;
  Resizer resizer_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace eqt::data
