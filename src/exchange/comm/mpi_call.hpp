// SPDX-License-Identifier: Apache-2.0
// Helpers for every MPI call of this room, and the error of a rank that receives damaged bytes.
// Private to the room.

#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "comm/session.hpp"
#include "core/error.hpp"
#include "core/layout.hpp"

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

/// Says which rank sent a message, and for which operation.
struct MessageOrigin {
  StepId step = 0;
  const char* operation = "";
  Rank sender = 0;
};

[[noreturn]] inline void fail_message(const MessageOrigin& from, const std::string& expectation) {
  fail(Kind::wire,
       "step {}: {}: expected from rank {} {}; it was damaged on its way, or its sender is out of "
       "step: start again, and test memory and network of both hosts if it comes back",
       from.step, from.operation, from.sender, expectation);
}

/// Throws unless the checksums are equal.
inline void require_undamaged(const MessageOrigin& from, std::size_t bytes, std::uint64_t expected,
                              std::uint64_t found) {
  if (expected == found) return;
  fail_message(from, fmt::format("bytes with the checksum {:016x}, found {} bytes with {:016x}",
                                 expected, bytes, found));
}

}  // namespace eqt::comm
