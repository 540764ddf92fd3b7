// SPDX-License-Identifier: Apache-2.0
// The communication thread of ranks without common steps: it exchanges from the first step of an
// epoch to its end.

#pragma once

#include "comm/communicator.hpp"
#include "comm/watchdog.hpp"
#include "core/layout.hpp"
#include "sync/background_thread.hpp"
#include "sync/shared_progress.hpp"

namespace eqt::sync {

/// Runs exchange.run() on a thread, and watches this rank's own steps: waits for others have the
/// communicator's deadline.
template <typename Exchange>
class EpochThread {
 public:
  /// Keeps references. @param timeout_seconds of a step; 0 = none
  EpochThread(comm::Communicator& comm, SharedProgress& progress, Exchange& exchange,
              double timeout_seconds)
      : comm_(comm),
        progress_(progress),
        exchange_(exchange),
        watchdog_(timeout_seconds, comm.rank(), comm.size()),
        background_([this] { run(); }, [this] { give_up(); }) {}

  bool runs() const noexcept { return runs_; }
  void start() {
    background_.start();
    runs_ = true;
  }
  /// Ends the epoch: waits until no rank sends any more. Throws the thread's error.
  void finish() {
    watchdog_.disarm();
    progress_.close();
    background_.finish();
    runs_ = false;
  }
  /// Throws the thread's error, if there was one.
  void rethrow() {
    if (progress_.failed()) background_.finish();
  }

  /// From now on this step has its deadline.
  void watch(StepId step) {
    watchdog_.set_step(step);
    watchdog_.arm("a step between averages", comm_.rank());
  }
  /// While this rank waits for others.
  void stop_watching() { watchdog_.disarm(); }

 private:
  void run() {
    try {
      exchange_.run();
    } catch (...) {
      progress_.fail();
      throw;
    }
  }
  void give_up() {
    progress_.fail();
    comm_.cancel();
  }

  comm::Communicator& comm_;
  SharedProgress& progress_;
  Exchange& exchange_;
  comm::Watchdog watchdog_;
  bool runs_ = false;
  BackgroundThread background_;  // last: its thread uses all of the above
};

}  // namespace eqt::sync
