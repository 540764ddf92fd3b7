// SPDX-License-Identifier: Apache-2.0
#include "model/own/pictures.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::model::precision {

void Pictures::write_framed(std::size_t n, std::span<float> out) const {
  const data::ImageShape to = framed_shape();
  EQT_CHECK(out.size() == to.values(), "{} values of a picture of {}", out.size(), to.values());
  const auto row = static_cast<std::size_t>(shape.width) * static_cast<std::size_t>(shape.channels);
  const auto part = static_cast<float>(share);
  std::ranges::fill(out, 0.0f);
  const float* from = &values[n * shape.values()];
  const float* partner = &values[(count() - 1 - n) * shape.values()];
  for (int y = 0; y < shape.height; ++y) {
    float* const line =
        &out[(static_cast<std::size_t>(y + frame.top) * static_cast<std::size_t>(to.width) +
              static_cast<std::size_t>(frame.left)) *
             static_cast<std::size_t>(shape.channels)];
    for (std::size_t i = 0; i < row; ++i)
      line[i] = share == 1 ? from[i] : part * from[i] + (1 - part) * partner[i];
    from += row;
    partner += row;
  }
}

}  // namespace eqt::model::precision
