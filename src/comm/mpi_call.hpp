// What every MPI call of this room needs. Private to the room.

#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstddef>
#include <thread>

#include "core/error.hpp"

namespace eqt::comm {

/// Tags stay below 32767, the least upper bound that MPI guarantees.
enum Tag : int { kFirstChannelTag = 1, kLastTag = 32766 };

/// @throws Error{mpi} with MPI's own text
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(Kind::mpi, "{} failed: {}", call, text.data());
}

inline int checked_int(std::size_t count) {
  EQT_CHECK(count <= static_cast<std::size_t>(INT_MAX), "an MPI message of {} elements", count);
  return static_cast<int>(count);
}

/// How a thread waits for messages. Those of other hosts it awaits asleep: a link brings a chunk in
/// half a millisecond or more, and a thread that spins takes the core from computing and from the
/// kernel's own network work. Those of this host come at the speed of memory: it looks again and
/// again for a moment, giving way to others, and sleeps only then.
class Patience {
 public:
  void pause(bool within_host) {
    const auto now = std::chrono::steady_clock::now();
    if (!started_) {
      started_ = true;
      since_ = now;
    }
    if (within_host && now - since_ < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  /// Something moved.
  void reset() { started_ = false; }

 private:
  static constexpr std::chrono::microseconds kEager{200}, kNap{100};
  std::chrono::steady_clock::time_point since_;
  bool started_ = false;
};

}  // namespace eqt::comm
