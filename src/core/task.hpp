// Task: a function that pauses where it waits and goes on when it is told to.

#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace eqt {

/// A coroutine without a result. It runs when start() is called or another task awaits it, and
/// belongs to one thread from then on. Destroying it destroys what it had on its stack.
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
  /// Throws what the task threw, if anything. @pre done()
  void result() const;

  /// co_await task: runs it, goes on when it is done, throws what it threw.
  auto operator co_await() const noexcept;

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

namespace detail {

/// Coroutine frames are used again, so that a step allocates nothing. One store per thread.
class FrameStore {
 public:
  static void* take(std::size_t bytes) {
    for (Frame& frame : frames()) {
      if (frame.memory && frame.bytes >= bytes && frame.bytes <= 2 * bytes) {
        Frame found = std::move(frame);
        frame = std::move(frames().back());
        frames().pop_back();
        return found.memory.release();
      }
    }
    auto* block = static_cast<std::size_t*>(::operator new(bytes + kHead));
    *block = bytes;
    return reinterpret_cast<std::byte*>(block) + kHead;
  }

  static void give(void* frame) noexcept {
    const std::size_t bytes = *reinterpret_cast<std::size_t*>(block_of(frame));
    frames().push_back({std::unique_ptr<void, Free>(frame), bytes});
  }

 private:
  static constexpr std::size_t kHead = alignof(std::max_align_t);
  static std::byte* block_of(void* frame) { return static_cast<std::byte*>(frame) - kHead; }
  struct Free {
    void operator()(void* frame) const { ::operator delete(block_of(frame)); }
  };
  struct Frame {
    std::unique_ptr<void, Free> memory;
    std::size_t bytes = 0;
  };
  static std::vector<Frame>& frames() {
    thread_local std::vector<Frame> store;
    return store;
  }
};

}  // namespace detail

struct Task::promise_type {
  std::coroutine_handle<> awaiting = std::noop_coroutine();  // resumed at the end
  std::exception_ptr error;

  static void* operator new(std::size_t bytes) { return detail::FrameStore::take(bytes); }
  static void operator delete(void* frame) noexcept { detail::FrameStore::give(frame); }

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
