// SPDX-License-Identifier: Apache-2.0
// The types of a tensor's elements in a file.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace eqt::weights {

enum class ElementType : std::uint8_t {
  float16,
  bfloat16,
  float32,
  float64,
  uint8,
  int8,
  int16,
  int32,
  int64,
  boolean,
  complex64,
  complex128,
};

/// [bytes]
std::size_t element_bytes(ElementType type) noexcept;

/// "float32", the name in Python's torch.
std::string_view element_name(ElementType type) noexcept;

}  // namespace eqt::weights
