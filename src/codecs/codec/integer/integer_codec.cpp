// SPDX-License-Identifier: Apache-2.0
#include "codec/integer/integer_codec.hpp"

#include <cmath>
#include <limits>

namespace eqt::codec {

float step_of(double scale, std::uint32_t count) noexcept {
  const auto step = static_cast<float>(scale / count);
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<double>(step) * count > kLargest ? std::nextafter(step, 0.0f) : step;
}

}  // namespace eqt::codec
