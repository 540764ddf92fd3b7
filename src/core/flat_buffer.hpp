// The memory of long float arrays that every step passes over.

#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace eqt {

/// Zeros, aligned for vectors and cache lines; long ones on huge pages where the kernel has them,
/// because a pass over many small pages waits for their addresses more than for their values.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  explicit FlatBuffer(std::size_t count) : memory_(allocate(count)), count_(count) {
    std::fill_n(memory_.get(), count, 0.0f);
  }
  std::span<float> span() const { return {memory_.get(), count_}; }

 private:
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };

  static float* allocate(std::size_t count) {
    const std::size_t wanted = std::max<std::size_t>(count, 1) * sizeof(float);
    const std::size_t page = wanted >= kHugePage ? kHugePage : kCacheLine;
    const std::size_t bytes = (wanted + page - 1) / page * page;
    void* memory = std::aligned_alloc(page, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    // Only advice: without it everything works on small pages.
    if (page == kHugePage) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
    return static_cast<float*>(memory);
  }

  std::unique_ptr<float[], Free> memory_;
  std::size_t count_ = 0;
};

}  // namespace eqt
