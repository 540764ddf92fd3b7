// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "core/error.hpp"
#include "device/launch_shape.hpp"
#include "device/queue.hpp"

namespace eqt::device {
namespace {

struct EmulatedLaunch {
  template <typename Kernel, typename OneJob>
  void warps(Kernel /*kernel*/, const OneJob& job, std::size_t count) {
    const HostWarp warp;
    for (std::size_t k = 0; k < count; ++k) Kernel::run(warp, job, k);
  }

  template <typename Kernel, typename OneJob>
  void groups(Kernel /*kernel*/, const OneJob& job, std::size_t count, unsigned warps) {
    HostGroup<typename Kernel::template State<HostWarp>> group(warps);
    for (std::size_t k = 0; k < count; ++k) Kernel::template run<HostWarp>(group, job, k);
  }
};

struct PassedEvent final : Event {
  void record() override {}
  bool passed() const override { return true; }
};

class EmulatedQueue final : public Queue {
 public:
  std::string device_name() const override { return "host emulation"; }
  void* allocate(std::size_t bytes) override { return ::operator new(bytes, kAlignment); }
  void release(void* memory) noexcept override { ::operator delete(memory, kAlignment); }
  void* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void release_pinned(void* memory) noexcept override { release(memory); }
  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void clear(void* memory, std::size_t bytes) override { std::memset(memory, 0, bytes); }
  void run(const Job& job) override {
    EmulatedLaunch launch;
    std::visit(Launching<EmulatedLaunch>(launch), job);
  }
  void wait() override {}
  std::unique_ptr<Event> make_event() override { return std::make_unique<PassedEvent>(); }

 private:
  static constexpr std::align_val_t kAlignment{256};

  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
};

}  // namespace

std::unique_ptr<Queue> make_emulated_queue() { return std::make_unique<EmulatedQueue>(); }

}  // namespace eqt::device
