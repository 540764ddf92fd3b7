// SPDX-License-Identifier: Apache-2.0
// Pictures as arrays: one input "images" (n, h, w, c) of normalised floats, channels last, as the
// networks want them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

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

}  // namespace eqt::data
