// SPDX-License-Identifier: Apache-2.0
// Memory of long arrays that are read many times.

#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace eqt {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
template <typename T>
using LongArray = std::unique_ptr<T[], FreeMemory>;

/// Not initialized; aligned for vectors and cache lines. From 2 MiB on it uses huge pages where the
/// kernel has them, because with small pages address translation takes more time than reading the
/// values. @throws std::bad_alloc
template <typename T>
LongArray<T> make_long_array(std::size_t count) {
  constexpr std::size_t kCacheLine = 64;
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t wanted = std::max<std::size_t>(count, 1) * sizeof(T);
  const std::size_t page = wanted >= kHugePage ? kHugePage : kCacheLine;
  const std::size_t bytes = (wanted + page - 1) / page * page;
  void* memory = std::aligned_alloc(page, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  // This is only advice: everything also works on small pages.
  if (page == kHugePage) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
  return LongArray<T>(static_cast<T*>(memory));
}

/// A long array of zeros.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  explicit FlatBuffer(std::size_t count) : memory_(make_long_array<float>(count)), count_(count) {
    std::fill_n(memory_.get(), count, 0.0f);
  }
  std::span<float> span() const { return {memory_.get(), count_}; }

 private:
  LongArray<float> memory_;
  std::size_t count_ = 0;
};

}  // namespace eqt
