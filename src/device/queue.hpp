// SPDX-License-Identifier: Apache-2.0
// A device's memory, and work that it does in order while the host goes on.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "device/jobs.hpp"

namespace eqt::device {

/// Everything but allocate(), release() and wait() returns before it is done; what is queued later
/// begins when it is.
class Queue {
 public:
  virtual ~Queue() = default;

  /// "NVIDIA H100 80GB HBM3", or "host emulation".
  virtual std::string device_name() const = 0;

  /// Device memory at a multiple of 256 bytes, not initialized.
  /// @throws Error{usage} if there is not enough of it
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;

  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* memory, std::size_t bytes) = 0;
  virtual void run(const Job& job) = 0;

  /// Returns when everything is done.
  /// @throws Error{bug} if the device has reported an error
  virtual void wait() = 0;
};

/// An array in device memory.
template <typename T>
class Array {
 public:
  Array(Queue& queue, std::size_t count)
      : queue_(&queue), count_(count), data_(static_cast<T*>(queue.allocate(count * sizeof(T)))) {}
  Array(Queue& queue, std::span<const T> values) : Array(queue, values.size()) {
    queue.upload(data_, values.data(), values.size_bytes());
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

/// Runs every kernel on the host, in host memory: for tests.
std::unique_ptr<Queue> make_emulated_queue();

}  // namespace eqt::device
