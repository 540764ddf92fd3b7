// SPDX-License-Identifier: Apache-2.0
#include "sync/shared_progress.hpp"

#include <chrono>

namespace eqt::sync {
namespace {

// The interval at which a rank polls for notes: much shorter than a step, much longer than polling
// takes.
constexpr std::chrono::microseconds kBriefWait{300};

}  // namespace

void SharedProgress::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool SharedProgress::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void SharedProgress::wait_briefly() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kBriefWait, [this] { return failed_; });
}

void SharedProgress::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

bool SharedProgress::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

}  // namespace eqt::sync
