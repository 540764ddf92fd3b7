// SPDX-License-Identifier: Apache-2.0
// The pictures of a batch, as the first layer of a network of our own takes them. No torch.

#pragma once

#include <cstddef>
#include <span>

#include "data/images.hpp"
#include "model/replica.hpp"

namespace eqt::model::precision {

/// Pictures of a batch.
struct Pictures {
  std::span<const float> values;  // (n, h, w, c), normalized
  data::ImageShape shape;
  Frame frame;       // zeros around each
  double share = 1;  // of mixup; the rest is that of the pictures in reverse order

  std::size_t count() const { return values.size() / shape.values(); }
  data::ImageShape framed_shape() const {
    return {.channels = shape.channels,
            .height = shape.height + frame.top + frame.bottom,
            .width = shape.width + frame.left + frame.right};
  }
  /// Writes a picture with its frame, mixed with its partner. @param out  framed_shape()
  void write_framed(std::size_t n, std::span<float> out) const;
};

}  // namespace eqt::model::precision
