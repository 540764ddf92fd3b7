// SPDX-License-Identifier: Apache-2.0
#include "core/worker_threads.hpp"

#include "core/error.hpp"

namespace eqt {

WorkerThreads::WorkerThreads(std::size_t count) : errors_(count) {
  EQT_CHECK(count >= 1, "{} threads", count);
  threads_.reserve(count - 1);
  for (std::size_t part = 1; part < count; ++part) {
    threads_.emplace_back([this, part](const std::stop_token& stop) { serve(stop, part); });
  }
}

void WorkerThreads::run(const Task& task) {
  EQT_CHECK(task.parts <= count(), "{} parts for {} threads", task.parts, count());
  if (task.parts == 0) return;
  if (task.parts > 1) {
    {
      const std::lock_guard lock(mutex_);
      task_ = task;
      unfinished_ = task.parts - 1;
      ++round_;
    }
    begun_.notify_all();
  }
  call(task, 0);
  if (task.parts > 1) {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return unfinished_ == 0; });
  }
  std::exception_ptr first;
  for (std::exception_ptr& error : errors_) {
    if (!first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

void WorkerThreads::serve(const std::stop_token& stop, std::size_t part) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (begun_.wait(lock, stop, [&] { return round_ != seen; })) {
    seen = round_;
    if (part >= task_.parts) continue;
    const Task task = task_;
    lock.unlock();
    call(task, part);
    lock.lock();
    if (--unfinished_ == 0) finished_.notify_one();
  }
}

void WorkerThreads::call(const Task& task, std::size_t part) noexcept {
  try {
    task.call(task.object, part);
  } catch (...) {
    errors_[part] = std::current_exception();
  }
}

}  // namespace eqt
