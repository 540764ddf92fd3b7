// SPDX-License-Identifier: Apache-2.0
// Layouts from shapes, and one number for a buffer's bits.

#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/layout.hpp"
#include "core/random.hpp"

namespace eqt::test {

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Tensors of these shapes one after the other.
inline Layout layout_of(const Shapes& shapes) {
  Layout layout;
  std::size_t offset = 0;
  for (const auto& shape : shapes) {
    std::size_t count = 1;
    for (const auto side : shape) count *= static_cast<std::size_t>(side);
    layout.push_back({"tensor" + std::to_string(layout.size()), shape, offset, count});
    offset += count;
  }
  return layout;
}

/// Differs if any bit differs.
inline std::uint64_t hash_of(std::span<const float> values) {
  std::uint64_t hash = 0;
  for (const float v : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    hash = mix64(hash ^ bits);
  }
  return hash;
}

}  // namespace eqt::test
