// SPDX-License-Identifier: Apache-2.0
// Cuts the caller's memory into arrays; without memory it counts how much they need.

#pragma once

#include <cstddef>

namespace eqt::int8 {

class Scratch {
 public:
  Scratch() = default;  // counts
  explicit Scratch(std::byte* memory) : memory_(memory) {}

  /// An array, aligned to 64 bytes, not initialized; null where it is only counted.
  template <typename T>
  T* take(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + at);
  }
  std::size_t used() const noexcept { return used_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace eqt::int8
