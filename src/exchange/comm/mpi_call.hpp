// SPDX-License-Identifier: Apache-2.0
// Helpers for every MPI call of this room. Private to the room.

#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstddef>
#include <thread>

#include "comm/session.hpp"
#include "core/error.hpp"

namespace eqt::comm {

/// Tags stay below 32767, the smallest upper bound that MPI guarantees.
enum Tag : int { kFirstChannelTag = 1, kLastTag = 32766 };

/// @throws Error{mpi} with MPI's own text
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(Kind::mpi, "{} failed: {}", call, text.data());
}

/// Prints the error of check() as a warning, for destructors, which cannot throw.
inline void check_quietly(int code, const char* call) noexcept {
  try {
    check(code, call);
  } catch (const Error& error) {
    print_warning(error.what());
  }
}

inline int checked_int(std::size_t count) {
  EQT_CHECK(count <= static_cast<std::size_t>(INT_MAX), "an MPI message of {} elements", count);
  return static_cast<int>(count);
}

/// Pauses a thread that waits for messages. For messages of other hosts it sleeps: a thread that
/// spins takes the core away from computing and from the kernel's own network work. Each check
/// costs some 20 microseconds of that core (MPI polls its sockets), so a sleep lasts a quarter of
/// the wait so far, or of what such waits took before: a slow link is checked a few times per
/// fragment, a fast one every 100 microseconds. Messages of this host arrive at the speed of
/// memory: for a moment the thread checks again and again, yielding to others, and only then
/// sleeps.
class PollBackoff {
 public:
  void pause(bool within_host) {
    const auto now = Clock::now();
    if (!waiting_) {
      waiting_ = true;
      since_ = now;
    }
    const auto waited = now - since_;
    if (within_host && waited < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(
          std::clamp<Clock::duration>(std::max(waited, usual_) / 4, kShortest, kLongest));
    }
  }
  /// Something has moved: the current wait, if any, is over.
  void moved() {
    const auto waited = waiting_ ? Clock::now() - since_ : Clock::duration::zero();
    usual_ = std::max(waited, usual_ / 2);
    waiting_ = false;
  }
  /// The next pause starts a new wait.
  void reset() { waiting_ = false; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kEager{200}, kShortest{100}, kLongest{500};
  Clock::time_point since_;
  Clock::duration usual_{0};  // of recent waits
  bool waiting_ = false;
};

}  // namespace eqt::comm
