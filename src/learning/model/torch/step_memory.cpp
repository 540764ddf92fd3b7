// SPDX-License-Identifier: Apache-2.0
// The memory that a network needs, as LibTorch's allocator counts it.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

#include "model/model_options.hpp"
#include "model/own/own_replica.hpp"
#include "model/replica.hpp"

namespace eqt::model {
namespace {

/// Adds up what LibTorch's allocator allocates and frees, on threads that inherit it.
class AllocationCounter final : public c10::MemoryReportingInfoBase {
 public:
  bool memoryProfilingEnabled() const override { return true; }
  // LibTorch 1.13's signature, then 2's: one of them overrides.
  void reportMemoryUsage(void*, std::int64_t bytes, std::int64_t, std::int64_t, c10::Device) {
    add(bytes);
  }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) {
    add(bytes);
  }
  std::int64_t most() const { return most_; }

 private:
  void add(std::int64_t bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  std::int64_t now_ = 0, most_ = 0;
};

template <typename Work>
double most_bytes(const Work& work) {
  const auto counter = std::make_shared<AllocationCounter>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    work();
  }
  return static_cast<double>(counter->most());
}

/// The most memory that work(a batch) uses, extrapolated linearly from two batch sizes.
template <typename Work>
std::uint64_t extrapolated(const ModelOptions& options, std::size_t size, const Work& work) {
  constexpr std::size_t kFew = 2, kMore = 4;
  // The larger batch first: what only a first batch allocates then makes the estimate too large,
  // not too small.
  const double more = most_bytes([&] { work(example_batch(options, kMore)); });
  const double few = most_bytes([&] { work(example_batch(options, kFew)); });
  const double slope = std::max(0.0, (more - few) / (kMore - kFew));
  const double beyond = static_cast<double>(size) - static_cast<double>(kMore);
  return static_cast<std::uint64_t>(std::max(more, more + slope * beyond));
}

}  // namespace

NetworkMemory measure_network_memory(const ModelOptions& options, std::size_t batch_size,
                                     std::size_t test_batch_size) {
  if (options.precision == Precision::int8) return int8_memory(options, batch_size);
  const auto replica = make_replica(options);
  NetworkMemory memory{.layout = replica->layout(), .buffer_values = replica->buffers().size()};
  memory.gradient_bytes = extrapolated(options, batch_size, [&](const data::Batch& batch) {
    (void)replica->forward_backward(batch, {});
  });
  memory.evaluate_bytes = extrapolated(
      options, test_batch_size, [&](const data::Batch& batch) { (void)replica->evaluate(batch); });
  return memory;
}

}  // namespace eqt::model
