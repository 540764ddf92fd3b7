// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "model/process_settings.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

/// The sum of what allocations report.
class Sum final : public c10::MemoryReportingInfoBase {
 public:
  bool memoryProfilingEnabled() const override { return true; }
  // LibTorch 1.13's signature, then 2's: one of them overrides.
  void reportMemoryUsage(void*, std::int64_t bytes, std::int64_t, std::int64_t, c10::Device) {
    value += bytes;
  }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) {
    value += bytes;
  }
  std::int64_t value = 0;
};

}  // namespace

TEST_CASE("tensors of every size are aligned and keep their values", "[cpu_allocator]") {
  allocate_exact_blocks();
  std::vector<at::Tensor> tensors;
  for (std::int64_t count = 1; count < 300; ++count) {
    tensors.push_back(bytes(count * count).fill_(count % 251));
    CHECK(reinterpret_cast<std::uintptr_t>(tensors.back().data_ptr()) % 64 == 0);
  }
  for (std::size_t i = 0; i < tensors.size(); i += 2) tensors[i].reset();
  for (std::size_t i = 1; i < tensors.size(); i += 2)
    CHECK((tensors[i] == static_cast<std::int64_t>(i + 1) % 251).all().item<bool>());
  CHECK(bytes(0).data_ptr() == nullptr);
}

#ifndef __SANITIZE_ADDRESS__  // which keeps freed blocks apart for a while
TEST_CASE("a tensor takes the memory of a freed one of its size", "[cpu_allocator]") {
  keep_freed_memory();
  allocate_exact_blocks();
  constexpr std::int64_t kBytes = 1 << 20;
  constexpr std::size_t kTensors = 16;
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < 2 * kTensors + 1; ++i) tensors.push_back(bytes(kBytes));
  std::ranges::sort(tensors, {}, [](const at::Tensor& tensor) { return tensor.data_ptr(); });
  // Every second one stays, or freed neighbours would become one larger block.
  std::set<const void*> freed, found;
  for (std::size_t i = 1; i < tensors.size(); i += 2) {
    freed.insert(tensors[i].data_ptr());
    tensors[i].reset();
  }
  for (std::size_t i = 1; i < tensors.size(); i += 2) {
    tensors[i] = bytes(kBytes);
    found.insert(tensors[i].data_ptr());
  }
  CHECK(found == freed);
}
#endif

TEST_CASE("a profiler is told of tensors that it saw made", "[cpu_allocator]") {
  allocate_exact_blocks();
  std::optional before = bytes(1000);
  const auto sum = std::make_shared<Sum>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, sum);
  before.reset();
  CHECK(sum->value == 0);
  std::optional during = bytes(500);
  CHECK(sum->value == 500);
  during.reset();
  CHECK(sum->value == 0);
}

TEST_CASE("raw memory is released by the allocator's own function", "[cpu_allocator]") {
  allocate_exact_blocks();
  c10::Allocator* const allocator = c10::GetAllocator(c10::DeviceType::CPU);
  void* const memory = allocator->raw_allocate(100);
  REQUIRE(memory != nullptr);
  allocator->raw_deallocate(memory);
}

}  // namespace eqt::model
