// SPDX-License-Identifier: Apache-2.0
// Queues that run every kernel on the host, for tests and rehearsals.

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

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

/// The emulated queue on a thread of its own: who reads a payload before its event has passed finds
/// old bytes, and a sanitizer for threads finds him.
class LateQueue final : public Queue {
 public:
  LateQueue() : thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  std::string device_name() const override { return queue_->device_name(); }
  void* allocate(std::size_t bytes) override { return queue_->allocate(bytes); }
  void release(void* memory) noexcept override {
    wait();
    queue_->release(memory);
  }
  void* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void release_pinned(void* memory) noexcept override { release(memory); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    add([this, to, from, bytes] { queue_->upload(to, from, bytes); });
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    add([this, to, from, bytes] { queue_->download(to, from, bytes); });
  }
  void clear(void* memory, std::size_t bytes) override {
    add([this, memory, bytes] { queue_->clear(memory, bytes); });
  }
  void run(const Job& job) override {
    add([this, job] { queue_->run(job); });
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == added_; });
  }
  std::unique_ptr<Event> make_event() override;

 private:
  friend class LateEvent;

  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
      ++added_;
    }
    changed_.notify_all();
  }

  void serve(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !work_.empty(); })) {
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  const std::unique_ptr<Queue> queue_ = make_emulated_queue();
  std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> work_;
  std::uint64_t added_ = 0, done_ = 0;
  std::jthread thread_;  // last: it uses all of the above
};

class LateEvent final : public Event {
 public:
  explicit LateEvent(LateQueue& queue) : queue_(queue) {}
  void record() override {
    const std::lock_guard lock(queue_.mutex_);
    point_ = queue_.added_;
  }
  bool passed() const override {
    const std::lock_guard lock(queue_.mutex_);
    return queue_.done_ >= point_;
  }

 private:
  LateQueue& queue_;
  std::uint64_t point_ = 0;
};

std::unique_ptr<Event> LateQueue::make_event() { return std::make_unique<LateEvent>(*this); }

}  // namespace

std::unique_ptr<Queue> make_emulated_queue() { return std::make_unique<EmulatedQueue>(); }

std::unique_ptr<Queue> make_late_emulated_queue() { return std::make_unique<LateQueue>(); }

}  // namespace eqt::device
