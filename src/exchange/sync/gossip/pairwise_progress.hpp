// SPDX-License-Identifier: Apache-2.0
// The state that a rank's trainer and its communication thread share.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/layout.hpp"
#include "core/traffic.hpp"
#include "sync/gossip/mixer.hpp"
#include "sync/shared_progress.hpp"

namespace eqt::sync {

/// Steps of all ranks as far as this rank knows, requested and completed exchanges, and their
/// costs. Thread-safe. Calls do not wait unless their comment says so.
class PairwiseProgress : public SharedProgress {
 public:
  /// The costs and errors of the exchanges since the last call of take().
  struct Taken {
    Traffic traffic;
    std::optional<double> variance;
  };
  /// This rank's exchanges of an epoch.
  struct Exchanges {
    std::uint64_t count = 0;
    StepId longest = 0;  // most steps of this rank without an exchange
  };

  PairwiseProgress(Rank rank, std::size_t ranks, bool active, bool alone);

  // The trainer's side.
  void open_epoch();
  /// An active rank requests an exchange, and waits until the previous one is done. A passive one
  /// waits if it has taken many steps since its last exchange, so that others get its changes
  /// first. Neither waits when the epoch is known to end, or after an error.
  void begin_step();
  void end_step();
  std::uint64_t steps_of_all() const;
  Taken take();
  Exchanges exchanges() const;
  /// Sets the steps of all ranks after an epoch.
  void set_steps(std::span<const StepId> steps);

  // The communication thread's side.
  /// Waits for a request of the trainer (true) or the end of its requests (false).
  bool wait_for_ask();
  void merge(std::span<const StepId> steps);
  /// Copies the known steps of every rank. @param steps one per rank
  void steps(std::span<StepId> steps) const;
  StepId own_steps() const;
  /// Records a completed exchange.
  void exchanged(const Traffic& traffic, const MessageError& message);
  /// Adds costs outside of exchanges.
  void spent(const Traffic& traffic);
  /// A partner has finished: the epoch ends, and its note had the steps of all ranks.
  void partner_left();

 private:
  bool goes_on() const { return failed_ || ending_; }

  const std::size_t rank_;
  const bool active_, alone_;
  // Guarded by mutex_.
  std::vector<StepId> steps_;  // completed, by rank
  StepId last_exchange_ = 0;   // own steps at that time
  bool asked_ = false;
  bool ending_ = false;
  Exchanges exchanges_;
  Taken taken_;
};

}  // namespace eqt::sync
