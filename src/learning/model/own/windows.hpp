// SPDX-License-Identifier: Apache-2.0
// Which pixels of a node belong to which pixels of another. Places are those of a pixel's first
// channel in a sample.

#pragma once

#include <cstddef>

#include "model/own/plan.hpp"

namespace eqt::model::precision {

/// Calls body(target, source) for the pixels of each window of a max_pool node, by row.
template <typename Body>
void for_each_window(const Node& from, const Node& to, const Body& body) {
  const auto place = [&](const Node& node, int y, int x) {
    return (static_cast<std::size_t>(y) * static_cast<std::size_t>(node.width) +
            static_cast<std::size_t>(x)) *
           static_cast<std::size_t>(node.channels);
  };
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      for (int ky = 0; ky < to.kernel; ++ky) {
        for (int kx = 0; kx < to.kernel; ++kx) {
          const int sy = y * to.stride - to.frame + ky, sx = x * to.stride - to.frame + kx;
          if (sy < 0 || sx < 0 || sy >= from.height || sx >= from.width) continue;
          body(place(to, y, x), place(from, sy, sx));
        }
      }
    }
  }
}

/// Shortcut A of He et al.: calls body(source, target) for each pixel of `from` that is kept, and
/// where its channels are in `to`, which has zeros on both sides of them.
template <typename Body>
void for_each_kept_pixel(const Node& from, const Node& to, const Body& body) {
  const auto before = static_cast<std::size_t>((to.channels - from.channels) / 2);
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      const auto source = static_cast<std::size_t>(y * to.stride * from.width + x * to.stride) *
                          static_cast<std::size_t>(from.channels);
      const auto target =
          static_cast<std::size_t>(y * to.width + x) * static_cast<std::size_t>(to.channels);
      body(source, target + before);
    }
  }
}

}  // namespace eqt::model::precision
