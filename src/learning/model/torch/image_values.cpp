// SPDX-License-Identifier: Apache-2.0
#include "model/torch/image_values.hpp"

#include <array>
#include <vector>

namespace eqt::model {

std::span<float> scratch(Scratch name, std::size_t count) {
  thread_local std::array<std::vector<float>, 5> memory;
  std::vector<float>& own = memory[static_cast<std::size_t>(name)];
  if (own.size() < count) own.resize(count);
  return std::span(own).first(count);
}

}  // namespace eqt::model
