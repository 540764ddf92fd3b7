// SPDX-License-Identifier: Apache-2.0
// One job at a time on a separate thread, during the work of its owner.

#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/clock.hpp"

namespace eqt::train {

class BackgroundThread {
 public:
  /// @param job what start() starts; may throw
  /// @param give_up makes a running job end soon; called only when shutting down after an error
  BackgroundThread(std::function<void()> job, std::function<void()> give_up);
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// @pre no job is under way
  void start();
  /// Waits for the job; throws what it threw.
  void finish();
  /// On the job's thread: how much of `seconds` that end now the owner spent in finish().
  double exposed(double seconds);

 private:
  void run();

  const std::function<void()> job_, give_up_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool running_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::optional<Stopwatch> finishing_since_;
  std::thread thread_;
};

}  // namespace eqt::train
