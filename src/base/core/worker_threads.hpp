// SPDX-License-Identifier: Apache-2.0
// WorkerThreads: threads that sleep until they get a part of a task.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace eqt {

/// Runs the parts of one task, the first on the calling thread. No thread spins, and nothing is
/// allocated after construction. For one caller at a time.
class WorkerThreads {
 public:
  /// @param count threads that compute, the caller's included; at least 1
  explicit WorkerThreads(std::size_t count);
  ~WorkerThreads() = default;  // the threads stop and are joined
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  std::size_t count() const noexcept { return errors_.size(); }

  /// Calls work(i) once for each i below `parts`, each on a different thread, and returns when all
  /// have returned.
  /// @pre parts <= count()
  /// @throws what work(i) threw, for the smallest such i
  template <typename Work>
  void run(std::size_t parts, const Work& work) {
    run({[](const void* object, std::size_t part) { (*static_cast<const Work*>(object))(part); },
         &work, parts});
  }

 private:
  struct Task {
    void (*call)(const void* object, std::size_t part) = nullptr;
    const void* object = nullptr;
    std::size_t parts = 0;
  };

  void run(const Task& task);
  void serve(const std::stop_token& stop, std::size_t part);
  void call(const Task& task, std::size_t part) noexcept;

  std::mutex mutex_;  // guards task_, round_ and unfinished_
  std::condition_variable_any begun_;
  std::condition_variable finished_;
  Task task_;
  std::uint64_t round_ = 0;  // number of the task: each thread takes part once
  std::size_t unfinished_ = 0;
  std::vector<std::exception_ptr> errors_;  // by part
  std::vector<std::jthread> threads_;       // last: they use all of the above
};

}  // namespace eqt
