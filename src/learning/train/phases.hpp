// SPDX-License-Identifier: Apache-2.0
// Phases of the main thread of a rank, each told once: to the watchdog, which ends a job whose rank
// is stuck, to the seconds of a step's record, to the timeline, and to tests that let a rank fail.

#pragma once

#include <optional>
#include <utility>

#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/clock.hpp"
#include "metrics/figures.hpp"
#include "sync/timeline.hpp"

namespace eqt::train {

struct Phase {
  const char* activity;  // a message about a rank that is stuck names it
  // Another thread may wait for messages meanwhile, see Watchdog::heartbeat.
  bool waits_too = false;
  double metrics::PhaseSeconds::*seconds = nullptr;  // null: no phase of the record
  std::optional<metrics::Activity> span = {};        // none: a gap in the timeline
  std::optional<comm::Fault::Phase> fault = {};      // EQT_FAULT may act when it begins
  bool has_deadline = true;  // false: the rank may wait for others, which have deadlines
};

/// The phases of training, in the order in which a rank comes through them.
namespace phases {

using metrics::Activity;
using metrics::PhaseSeconds;

inline constexpr Phase kStart{"the state to begin with"};
// A step.
inline constexpr Phase kStep{.activity = "loading of a batch",
                             .seconds = &PhaseSeconds::compute,
                             .fault = comm::Fault::Phase::step};
inline constexpr Phase kLoading{
    .activity = "loading of a batch", .seconds = &PhaseSeconds::data, .span = Activity::data};
inline constexpr Phase kComputing{.activity = "forward and backward pass",
                                  .seconds = &PhaseSeconds::compute,
                                  .span = Activity::compute};
inline constexpr Phase kObserving{.activity = "forward and backward pass",
                                  .span = Activity::compute};
// Asynchronous ranks may wait for a partner here.
inline constexpr Phase kBeginning{.activity = "forward and backward pass",
                                  .seconds = &PhaseSeconds::compute,
                                  .span = Activity::wait,
                                  .has_deadline = false};
inline constexpr Phase kWorkerReady{"compression of a worker's gradient"};
// Its seconds are counted where messages are encoded, awaited and decoded.
inline constexpr Phase kSynchronizing{
    .activity = "synchronization", .waits_too = true, .span = Activity::wait};
inline constexpr Phase kUpdating{
    .activity = "update", .seconds = &PhaseSeconds::update, .span = Activity::update};
inline constexpr Phase kStepRecords{.activity = "records of a step", .waits_too = true};
inline constexpr Phase kBalancing{.activity = "batches by speed", .waits_too = true};
// Between steps. Asynchronous ranks wait for the others' steps and answer them.
inline constexpr Phase kWaitingForSteps{.activity = "end of an epoch",
                                        .seconds = &PhaseSeconds::transfer,
                                        .span = Activity::wait,
                                        .has_deadline = false};
inline constexpr Phase kEvaluating{
    .activity = "evaluation", .waits_too = true, .fault = comm::Fault::Phase::evaluation};
inline constexpr Phase kKeepingBest{.activity = "writing of the best weights", .waits_too = true};
inline constexpr Phase kEpochRecords{.activity = "records of an epoch", .waits_too = true};
inline constexpr Phase kSaving{
    .activity = "checkpoint", .waits_too = true, .fault = comm::Fault::Phase::checkpoint};
inline constexpr Phase kSavingInMemory{.activity = "state in memory", .waits_too = true};
inline constexpr Phase kLastSave{.activity = "checkpoint", .waits_too = true};  // of a stopped run
inline constexpr Phase kFinishing{.activity = "writing of the last checkpoint", .waits_too = true};
inline constexpr Phase kComparing{"comparison of the results"};

}  // namespace phases

/// The phase of this rank's main thread.
class CurrentPhase {
 public:
  /// @param timeline null: no spans
  CurrentPhase(comm::Communicator& comm, sync::Timeline* timeline)
      : comm_(comm), timeline_(timeline) {}

  /// Ends the phase before. @param phase must live on
  void enter(const Phase& phase);
  /// The phase goes on: the watchdog's deadline begins anew.
  void goes_on(const char* activity) { comm_.heartbeat(activity); }
  /// Ends the phase; what follows may take any time.
  void leave();
  /// Returns the seconds of the phases that have ended since the last call.
  metrics::PhaseSeconds take_seconds() { return std::exchange(seconds_, {}); }

 private:
  void close();

  comm::Communicator& comm_;
  sync::Timeline* timeline_;
  metrics::PhaseSeconds seconds_;
  const Phase* phase_ = nullptr;
  Stopwatch clock_;
  double begin_ = 0;  // by the timeline's clock
};

inline void CurrentPhase::close() {
  if (phase_ == nullptr) return;
  if (phase_->seconds != nullptr) seconds_.*phase_->seconds += clock_.seconds();
  if (timeline_ != nullptr && phase_->span)
    timeline_->note(*phase_->span, begin_, timeline_->now());
  phase_ = nullptr;
}

inline void CurrentPhase::enter(const Phase& phase) {
  close();
  phase_ = &phase;
  clock_.restart();
  if (timeline_ != nullptr) begin_ = timeline_->now();
  if (phase.has_deadline) {
    comm_.heartbeat(phase.activity, phase.waits_too);
  } else {
    comm_.end_heartbeat();
  }
}

inline void CurrentPhase::leave() {
  close();
  comm_.end_heartbeat();
}

}  // namespace eqt::train
