// SPDX-License-Identifier: Apache-2.0
// Deals ranges of values to ranks or lanes, evenly. Private to the room.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace eqt::collective {

/// Counts how many values each receiver has so far. If receivers took turns with tensors of very
/// different sizes, one of them would have half as many values again as the mean, and all others
/// would wait for it.
class LeastLoaded {
 public:
  explicit LeastLoaded(std::size_t receivers) : values_(receivers) {}

  std::size_t receivers() const noexcept { return values_.size(); }

  /// @return the one with the fewest values, the first of equals, which now has `count` more
  std::size_t give(std::size_t count) {
    const auto least = std::min_element(values_.begin(), values_.end());
    *least += count;
    return static_cast<std::size_t>(least - values_.begin());
  }

 private:
  std::vector<std::size_t> values_;
};

}  // namespace eqt::collective
