// SPDX-License-Identifier: Apache-2.0
// Little-endian fields in byte buffers, whatever the host's byte order and alignment.

#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace eqt::codec {

static_assert(std::endian::native == std::endian::little,
              "big-endian hosts need byte swaps in load and store");

template <typename T>
T load(const std::byte* from) noexcept {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, T value) noexcept {
  static_assert(std::is_arithmetic_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace eqt::codec
