// SPDX-License-Identifier: Apache-2.0
// Runs one job at a time on a separate thread, while its owner continues.

#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/clock.hpp"

namespace eqt::sync {

class BackgroundThread {
 public:
  /// @param job run by start(); may throw
  /// @param give_up makes a running job end soon; called only at shutdown after an error
  BackgroundThread(std::function<void()> job, std::function<void()> give_up);
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// @pre no job is running
  void start();
  /// Waits for the job and throws its exception.
  void finish();
  /// Throws the job's exception, if it has ended by one; does not wait. Divergence is left to
  /// finish(): its owner sees the loss and can say more.
  void rethrow();
  /// On the job's thread: how much of the last `seconds` the owner has waited in finish().
  double exposed(double seconds);

 private:
  void run();

  const std::function<void()> job_, give_up_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool running_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::atomic<bool> failed_ = false;  // there is an error that rethrow() throws
  std::optional<Stopwatch> finishing_since_;
  std::thread thread_;
};

}  // namespace eqt::sync
