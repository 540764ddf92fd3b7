// SPDX-License-Identifier: Apache-2.0
// How pictures of the user's own become samples: the keys of the config that say so.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/catalogue.hpp"
#include "data/images.hpp"

namespace eqt::data {

/// Tells how a training picture is cropped where it is augmented.
enum class CropKind : std::uint8_t { automatic, resized, padded };
std::span<const Named<CropKind>> names_of(CropKind);

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

struct PictureOptions {
  int size = 224;    // [pixels] of a side
  int channels = 3;  // 1: grey, 3: red, green, blue
  CropKind crop = CropKind::automatic;
  std::vector<double> mean = {};       // (channels), as fractions of 255; empty = measured
  std::vector<double> deviation = {};  // likewise
  double test_fraction = 0.1;          // of each class, where a set has no test pictures
  std::size_t skip_limit = 10;         // broken pictures that are put up with
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;  // for decoded pictures
};

}  // namespace eqt::data
