// SPDX-License-Identifier: Apache-2.0
// What a rank's trainer and its communication thread tell each other in every algorithm without
// common steps.

#pragma once

#include <condition_variable>
#include <mutex>

namespace eqt::sync {

/// The base of their shared state. Thread-safe.
class SharedProgress {
 public:
  /// This rank's trainer has finished the epoch.
  void close();
  bool closed() const;
  /// The communication thread waits for a short time, or until something fails.
  void wait_briefly();
  /// One side has an error: the other does not wait any more.
  void fail();
  bool failed() const;

 protected:
  mutable std::mutex mutex_;  // guards the members of derived classes, too
  std::condition_variable changed_;
  bool closed_ = false, failed_ = false;
};

}  // namespace eqt::sync
