// SPDX-License-Identifier: Apache-2.0
// Scratch memory that is reused, so that a step allocates nothing.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace eqt {

/// Names a scratch array of T. Arrays with the same slot share memory, so only one of them may be
/// used at a time. Each room declares its arrays in one place.
template <typename T>
struct ScratchArray {
  static_assert(std::is_trivially_copyable_v<T>);
  std::size_t slot;
};

/// A few independent scratch arrays. Not thread-safe: one per thread.
class Workspace {
 public:
  static constexpr std::size_t kSlots = 8;

  /// An uninitialised array of `count` T, 64-byte aligned, valid until its slot is requested again.
  /// Memory grows by at least half, so later calls do not allocate.
  template <typename T>
  std::span<T> array(ScratchArray<T> which, std::size_t count) {
    return {reinterpret_cast<T*>(reserve(which.slot, count * sizeof(T))), count};
  }

 private:
  struct Slot {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  std::byte* reserve(std::size_t slot, std::size_t bytes) {
    Slot& s = slots_.at(slot);
    if (s.bytes < bytes) {
      s.bytes = bytes + bytes / 2;
      s.memory.reset(new std::byte[s.bytes + kAlignment]);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(s.memory.get());
    return s.memory.get() + (kAlignment - address % kAlignment) % kAlignment;
  }

  static constexpr std::size_t kAlignment = 64;
  std::array<Slot, kSlots> slots_;
};

}  // namespace eqt
