// SPDX-License-Identifier: Apache-2.0
// Task: a coroutine that pauses when it waits and continues when it is resumed.

#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace eqt {

/// A coroutine without a result. It starts by start() or when another task awaits it, and then
/// always runs on that thread. Destroying it destroys the objects in its frame.
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// Runs to the first pause. @pre not started
  void start() { handle_.resume(); }
  bool done() const { return handle_.done(); }
  /// Throws the task's exception, if there was one. @pre done()
  void result() const;

  /// co_await task: runs it, continues when it is done, and throws its exception.
  auto operator co_await() const noexcept;

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

namespace detail {

/// Reuses the memory of coroutine frames, so that a step allocates nothing. One store per thread.
class FrameStore {
 public:
  static void* take(std::size_t bytes) {
    auto& sizes = store();
    auto of_size = std::find_if(sizes.begin(), sizes.end(),
                                [=](const Frames& frames) { return frames.bytes == bytes; });
    if (of_size == sizes.end()) {
      sizes.push_back({.bytes = bytes, .free = {}});
      of_size = std::prev(sizes.end());
    }
    if (of_size->free.empty()) of_size->add();
    void* const frame = of_size->free.back().release();
    of_size->free.pop_back();
    return frame;
  }

  static void give(void* frame, std::size_t bytes) noexcept {
    for (Frames& frames : store()) {
      if (frames.bytes == bytes) frames.free.emplace_back(frame);
    }
  }

 private:
  struct Delete {
    void operator()(void* frame) const { ::operator delete(frame); }
  };
  struct Frames {
    std::size_t bytes = 0;
    std::vector<std::unique_ptr<void, Delete>> free;

    /// The number of tasks that exist at the same time depends on timing, so room for all of them
    /// is made at once.
    void add() {
      constexpr std::size_t kAtOnce = 16;
      free.reserve(free.capacity() + kAtOnce);
      for (std::size_t i = 0; i < kAtOnce; ++i) free.emplace_back(::operator new(bytes));
    }
  };
  static std::vector<Frames>& store() {
    thread_local std::vector<Frames> sizes;
    return sizes;
  }
};

}  // namespace detail

struct Task::promise_type {
  std::coroutine_handle<> awaiting = std::noop_coroutine();  // resumed at the end
  std::exception_ptr error;

  static void* operator new(std::size_t bytes) { return detail::FrameStore::take(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    detail::FrameStore::give(frame, bytes);
  }

  Task get_return_object() { return Task(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() const noexcept { return {}; }
  struct Final {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle self) const noexcept {
      return self.promise().awaiting;
    }
    void await_resume() const noexcept {}
  };
  Final final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void unhandled_exception() { error = std::current_exception(); }
};

inline void Task::result() const {
  if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
}

inline auto Task::operator co_await() const noexcept {
  struct Awaiter {
    Handle task;
    bool await_ready() const noexcept { return task.done(); }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
      task.promise().awaiting = caller;
      return task;
    }
    void await_resume() const {
      if (task.promise().error) std::rethrow_exception(task.promise().error);
    }
  };
  return Awaiter{handle_};
}

}  // namespace eqt
