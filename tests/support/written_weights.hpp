// SPDX-License-Identifier: Apache-2.0
// Files of weights that were written, for the room's own reader.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "weights/state_dict.hpp"

namespace eqt::test {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// @param name for messages
inline weights::StateDict read_weights(const std::string& file, const std::string& name) {
  const auto bytes = std::as_bytes(std::span(file));
  return weights::StateDict({bytes.begin(), bytes.end()}, name);
}

}  // namespace eqt::test
