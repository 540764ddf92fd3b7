// SPDX-License-Identifier: Apache-2.0
// A device's memory, and work that it does in order while the host goes on.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "device/jobs.hpp"

namespace eqt::device {

/// A point in a queue.
class Event {
 public:
  virtual ~Event() = default;
  /// The point after everything that is queued so far.
  virtual void record() = 0;
  /// Is what was queued before record() done?
  /// @throws Error{bug} if the device has reported an error
  virtual bool passed() const = 0;
};

/// Everything but allocate(), release() and wait() returns before it is done; what is queued later
/// begins when it is. Thread-safe, where the order of what threads queue does not matter.
class Queue {
 public:
  virtual ~Queue() = default;

  /// "NVIDIA H100 80GB HBM3", or "host emulation".
  virtual std::string device_name() const = 0;

  /// Device memory at a multiple of 256 bytes, not initialized.
  /// @throws Error{usage} if there is not enough of it
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;

  /// Host memory for copies that run while the host goes on: with other memory a copy to it may be
  /// waited for. @throws Error{usage} if there is not enough of it
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* memory) noexcept = 0;

  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* memory, std::size_t bytes) = 0;
  virtual void run(const Job& job) = 0;

  /// Returns when everything is done.
  /// @throws Error{bug} if the device has reported an error
  virtual void wait() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
};

/// An array in device memory.
template <typename T>
class Array {
 public:
  Array(Queue& queue, std::size_t count)
      : queue_(&queue), count_(count), data_(static_cast<T*>(queue.allocate(count * sizeof(T)))) {}
  Array(Queue& queue, std::span<const T> values) : Array(queue, values.size()) {
    queue.upload(data_, values.data(), values.size_bytes());
    queue.wait();  // the values may be a temporary object's
  }
  ~Array() { queue_->release(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }

 private:
  Queue* queue_;
  std::size_t count_;
  T* data_;
};

/// An array in pinned memory of the host.
template <typename T>
class PinnedArray {
 public:
  PinnedArray(Queue& queue, std::size_t count)
      : queue_(&queue), values_(static_cast<T*>(queue.allocate_pinned(count * sizeof(T))), count) {}
  ~PinnedArray() { queue_->release_pinned(values_.data()); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  std::span<T> span() const noexcept { return values_; }

 private:
  Queue* queue_;
  std::span<T> values_;
};

/// Runs every kernel on the host, in host memory, before the call returns: for tests.
std::unique_ptr<Queue> make_emulated_queue();

/// Runs every kernel on the host, on a thread of its own, as late as a device may run it: for
/// rehearsals.
std::unique_ptr<Queue> make_late_emulated_queue();

}  // namespace eqt::device
