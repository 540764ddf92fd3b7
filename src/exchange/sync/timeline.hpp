// SPDX-License-Identifier: Apache-2.0
// When a rank did what in its last steps, against a clock that all ranks share.

#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "comm/communicator.hpp"
#include "metrics/records.hpp"

namespace eqt::sync {

/// The clocks of the ranks of a job.
struct CommonClock {
  double offset_seconds = 0;  // added to this rank's steady clock: seconds since rank 0's start
  double error_seconds = 0;   // of the offset, at most; the largest of all ranks
};

/// Ranks that share rank 0's kernel share its clock. Of others rank 0 asks the time eight times and
/// takes the answer that came back soonest, whose offset is wrong by at most half its round trip
/// (F. Cristian, 1989). Collective.
CommonClock agree_on_clock(comm::Communicator& comm);

/// A ring of the last steps of this rank. note() may be called by any thread.
class Timeline {
 public:
  using Activity = metrics::Activity;

  /// @param steps that it keeps, at least 1
  explicit Timeline(std::size_t steps);

  void set_clock(const CommonClock& clock) { clock_ = clock; }
  /// [seconds]
  double now() const;
  /// From now on, spans belong to the step after which `step` steps are completed.
  void begin_step(StepId step);
  /// Nothing shorter than 20 microseconds is kept; activities that follow each other directly are
  /// joined. A step has at most 256 spans.
  void note(Activity activity, double begin, double end);
  /// The steps of all ranks since the last call, as far as they are kept, by step and rank, on rank
  /// 0; nothing on the others. Collective, while no thread notes.
  std::vector<metrics::TimelineRecord> gather(comm::Communicator& comm);

 private:
  mutable std::mutex mutex_;                   // guards the ring
  std::vector<metrics::TimelineRecord> ring_;  // step 0: unused
  std::size_t at_ = 0;                         // the current one
  CommonClock clock_;
};

/// Notes what a thread does while it exchanges messages: it waits for them, or else encodes, sends
/// or decodes. With no timeline it does nothing.
class MessageSpans {
 public:
  explicit MessageSpans(Timeline* timeline) : timeline_(timeline) {}

  void begin();
  /// In the last `seconds` the thread only waited for messages.
  void waited(double seconds);
  /// Since `begin`, of Timeline::now(), the thread had nothing to do.
  void idled(double begin);
  void end();
  double now() const { return timeline_ == nullptr ? 0 : timeline_->now(); }

 private:
  Timeline* timeline_;
  double busy_since_ = 0;
};

}  // namespace eqt::sync
