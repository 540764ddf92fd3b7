// SPDX-License-Identifier: Apache-2.0
#include "model/torch/cpu_allocator.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

namespace eqt::model {
namespace {

constexpr std::size_t kAlignment = 64;  // LibTorch's own

/// Stands before the values of a tensor.
struct BlockHeader {
  void* block = nullptr;      // that malloc() gave
  std::int64_t reported = 0;  // [bytes] of the tensor if a profiler was told, else 0
};
static_assert(sizeof(BlockHeader) <= kAlignment && alignof(BlockHeader) <= kAlignment);

BlockHeader* header_of(void* values) {
  return std::launder(
      reinterpret_cast<BlockHeader*>(static_cast<std::byte*>(values) - sizeof(BlockHeader)));
}

void report(void* values, std::int64_t bytes) {
  c10::reportMemoryUsageToProfiler(values, bytes, 0, 0, c10::Device(c10::DeviceType::CPU));
}

void release(void* values) {
  if (values == nullptr) return;
  const BlockHeader header = *header_of(values);
  if (header.reported != 0 && c10::memoryProfilingEnabled()) report(values, -header.reported);
  std::free(header.block);
}

/// Aligned [bytes] with a header before them.
void* aligned_block(std::size_t bytes) {
  constexpr std::size_t kBeside = sizeof(BlockHeader) + kAlignment - 1;
  void* const block = bytes <= std::numeric_limits<std::size_t>::max() - kBeside
                          ? std::malloc(bytes + kBeside)
                          : nullptr;
  TORCH_CHECK(block != nullptr, "can't allocate memory: ", bytes, " bytes");
  const auto first = reinterpret_cast<std::uintptr_t>(block) + kBeside;
  void* const values = reinterpret_cast<void*>(first - first % kAlignment);
  const bool profiled = c10::memoryProfilingEnabled();
  new (header_of(values)) BlockHeader{block, profiled ? static_cast<std::int64_t>(bytes) : 0};
  if (profiled) report(values, static_cast<std::int64_t>(bytes));
  return values;
}

class ExactBlocks final : public c10::Allocator {
 public:
  // LibTorch 1.13's signature, then 2.4's: one of them overrides.
  c10::DataPtr allocate(std::size_t bytes) const { return block_of(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return block_of(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  /// A function of LibTorch 2's allocators alone.
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  static c10::DataPtr block_of(std::size_t bytes) {
    void* const values = bytes == 0 ? nullptr : aligned_block(bytes);
    return {values, values, &release, c10::Device(c10::DeviceType::CPU)};
  }
};

}  // namespace

void allocate_exact_blocks() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetCPUAllocator(new ExactBlocks);  // LibTorch's from now on
  });
}

}  // namespace eqt::model
