// SPDX-License-Identifier: Apache-2.0
// A thread that runs one job at a time.

#include "sync/background_thread.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace eqt::sync {

BackgroundThread::BackgroundThread(std::function<void()> job, std::function<void()> give_up)
    : job_(std::move(job)), give_up_(std::move(give_up)), thread_([this] { run(); }) {}

BackgroundThread::~BackgroundThread() {
  bool running = false;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    running = running_;
  }
  changed_.notify_all();
  // A job still runs here only after an error; it may wait for a peer that will not answer.
  if (running) give_up_();
  thread_.join();
}

void BackgroundThread::start() {
  {
    const std::lock_guard lock(mutex_);
    finishing_since_.reset();
    running_ = true;
  }
  changed_.notify_all();
}

void BackgroundThread::finish() {
  std::unique_lock lock(mutex_);
  finishing_since_.emplace();
  changed_.wait(lock, [this] { return !running_; });
  if (error_) std::rethrow_exception(error_);
}

void BackgroundThread::rethrow() {
  if (failed_.load(std::memory_order_relaxed)) finish();
}

double BackgroundThread::exposed(double seconds) {
  const std::lock_guard lock(mutex_);
  if (!finishing_since_) return 0;
  return std::min(seconds, finishing_since_->seconds());
}

void BackgroundThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || running_; });
    if (stop_) return;
    lock.unlock();
    std::exception_ptr error;  // rethrown on the owner's thread
    bool diverged = false;
    try {
      job_();
    } catch (const Error& found) {
      error = std::current_exception();
      diverged = found.kind() == Kind::diverged;
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    failed_ = error != nullptr && !diverged;
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace eqt::sync
