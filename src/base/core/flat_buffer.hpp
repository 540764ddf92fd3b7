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

/// Returns memory that is not initialized, aligned for vectors and cache lines. From 2 MiB on it
/// uses huge pages where the kernel has them, because with small pages address translation takes
/// more time than reading the values. @throws std::bad_alloc
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

struct FreePages {
  std::size_t bytes = 0;  // 0: from the heap
  void operator()(float* memory) const;
};

/// A long array of zeros. From a page on, its memory is whole pages, as make_long_array() chooses
/// them.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  /// @throws std::bad_alloc
  explicit FlatBuffer(std::size_t count);
  std::span<float> span() const { return {memory_.get(), count_}; }

  /// Moves the values to memory that other processes can map, at the same address. No other thread
  /// may use them meanwhile.
  /// @param more zero bytes in the file behind the pages of the values, which are mapped_bytes()
  /// @return the file, which the caller closes; -1 where there is none, or for less than a page:
  /// nothing has changed
  int share(std::size_t more);
  /// 0: less than a page.
  std::size_t mapped_bytes() const { return memory_.get_deleter().bytes; }

 private:
  std::unique_ptr<float[], FreePages> memory_;
  std::size_t count_ = 0;
};

}  // namespace eqt
