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

/// Sleeps that grow while nothing happens: short waits stay short, long ones leave the core to the
/// threads that compute.
class Patience {
 public:
  void pause() {
    if (++polls_ <= kEagerPolls) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(sleep_us_));
    sleep_us_ = sleep_us_ * 2 < kLongestSleepUs ? sleep_us_ * 2 : kLongestSleepUs;
  }
  void reset() { *this = {}; }

 private:
  static constexpr int kEagerPolls = 20;
  static constexpr int kLongestSleepUs = 200;  // an MPI message on 1 GbE takes about 50 us
  int polls_ = 0;
  int sleep_us_ = 5;
};

}  // namespace eqt::comm
