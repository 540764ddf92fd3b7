// SPDX-License-Identifier: Apache-2.0
// The state that a rank's trainer and its communication thread share.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/layout.hpp"
#include "core/traffic.hpp"
#include "gossip/mixer.hpp"

namespace eqt::train {

/// Steps of all ranks as far as this one knows; exchanges asked for and done, and their costs.
/// Every call takes the lock for a moment; those that wait say so.
class PairwiseProgress {
 public:
  /// The costs and errors of the exchanges since the last call of take().
  struct Taken {
    Traffic traffic;
    std::optional<double> variance;
  };
  /// This rank's exchanges of an epoch.
  struct Exchanges {
    std::uint64_t count = 0;
    StepId longest = 0;  // steps of this rank between two of them, before the first, after the last
  };

  PairwiseProgress(Rank rank, std::size_t ranks, bool active, bool alone);

  // The trainer's side.
  void open_epoch();
  /// An active rank asks for an exchange, and waits until the one before is done. A passive one
  /// waits if it has taken many steps since its last exchange, so that others get its changes
  /// before it continues. Neither waits when the epoch is known to end, or after an error.
  void begin_step();
  void end_step();
  std::uint64_t steps_of_all() const;
  Taken take();
  /// This rank's trainer has ended the epoch.
  void close_epoch();
  Exchanges exchanges() const;
  /// Sets the steps that all ranks know of after an epoch.
  void set_steps(std::span<const StepId> steps);

  // The communication thread's side.
  /// Waits until the trainer asks (true) or will not any more (false).
  bool wait_for_ask();
  void merge(std::span<const StepId> steps);
  /// Copies what is known of every rank's steps. @param steps one per rank
  void steps(std::span<StepId> steps) const;
  StepId own_steps() const;
  /// An exchange is done.
  void exchanged(const Traffic& traffic, const gossip::MessageError& message);
  /// Adds costs that belong to no exchange.
  void spent(const Traffic& traffic);
  /// A partner asks no more: the epoch ends, and it has said how far all ranks are.
  void partner_left();
  bool closed() const;
  /// Waits a moment, or until something changes.
  void wait_briefly();

  // Either side's.
  void fail();
  bool failed() const;

 private:
  bool goes_on() const { return failed_ || ending_; }

  const std::size_t rank_;
  const bool active_, alone_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<StepId> steps_;  // completed, by rank
  StepId last_exchange_ = 0;   // own steps then
  bool asked_ = false;
  bool closed_ = false;
  bool ending_ = false;
  bool failed_ = false;
  Exchanges exchanges_;
  Taken taken_;
};

}  // namespace eqt::train
