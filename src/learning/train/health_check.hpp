// SPDX-License-Identifier: Apache-2.0
// The health checks that ranks exchange during training: whether a rank was told to stop, whether a
// rank has found a value that is not finite, whether replicas are equal, and when the state is kept
// in the hosts' memory.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "comm/communicator.hpp"
#include "core/layout.hpp"

namespace eqt::train {

/// The report of one rank.
struct HealthReport {
  bool stop = false;                  // the rank was told to stop
  bool diverged = false;              // the rank has found a value that is not finite
  std::optional<std::uint64_t> hash;  // of its parameters, if replicas are to be compared
  bool save = false;     // rank 0: the state is to be kept in memory after the step of the verdict
  bool written = false;  // the rank has written its part of the last such state
};

/// The reports of all ranks together; the same on every rank.
struct HealthStatus {
  std::optional<Rank> stop;      // a rank that was told to stop
  std::optional<Rank> diverged;  // a rank that has found a value that is not finite
  bool replicas_differ = false;
  bool save = false;     // rank 0 has asked for it
  bool written = false;  // by all ranks
  /// True if training goes on.
  bool clear() const { return !stop && !diverged && !replicas_differ; }
};

/// Nine numbers per rank are exchanged about twice a second, while the next step is computed: the
/// result arrives a step after the report, and no rank waits for it. Rank 0 decides how many steps
/// are between two exchanges, and sends that number with them, so that all ranks use the same.
class HealthCheck {
 public:
  /// @param every_step report after each step
  HealthCheck(comm::Communicator& comm, bool every_step);

  /// True if the next call of after_step() sends a report if `meets`. The same on every rank.
  bool is_due(bool meets) const noexcept;
  /// Called after every step. Collective.
  /// @param meets whether ranks exchanged messages in this step, the same on all; if they have not
  /// for long, they do here
  /// @return the verdict of the previous report, if one was pending
  HealthStatus after_step(double step_seconds, bool meets, const HealthReport& report);
  /// The verdict of all ranks now, which waits for them; completes a pending report. Collective.
  HealthStatus now(const HealthReport& report);

 private:
  enum Word : std::size_t {
    kStop,
    kDiverged,
    kInterval,
    kHigh,
    kMinusHigh,
    kLow,
    kMinusLow,
    kSave,
    kUnwritten,
    kWords
  };

  void send(const HealthReport& report);
  HealthStatus receive();
  double next_interval() const;

  comm::Communicator& comm_;
  const bool every_step_;
  std::array<double, kWords> words_{};
  bool under_way_ = false;
  StepId interval_ = 1;  // steps between reports
  StepId since_ = 0;     // steps since the last
  double seconds_ = 0;   // of these steps
};

}  // namespace eqt::train
