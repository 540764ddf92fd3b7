// SPDX-License-Identifier: Apache-2.0
// The compressor auto: noise and link choose the grade of each slice. With a memory errors do it in
// place of noise: what is not sent now is sent later, so it may be more.
//
// Rounds   1 and a broadcast in observed steps
// Sent     by each rank to each other 7 + 2K + P + S (3 + 2K) doubles for S slices, K grades and P
//          fusion buckets; a byte a slice and one more in the broadcast
// Equal    every rank adds the same numbers in the same order, but only rank 0 decides: the table
//          does not depend on how processors round

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "adaptation/gradient_noise.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "comm/communicator.hpp"
#include "pipeline/plan.hpp"

namespace eqt::adaptation {

/// A slice as it would be sent.
struct SliceLoad {
  double values = 0, bytes = 0;
  codec::GradeIndex grade = 0;
};

/// Holds what was measured.
struct StepSpeeds {
  double forward = 0, backward = 0;  // of a step whose threads all have cores [seconds]
  // Seconds that computing loses per second that the communication thread works, because they
  // share cores; from 0 to 1.
  double contention = 0;
  std::vector<double> encode_seconds = {}, decode_seconds = {};  // of a value, by grade
  // Each bucket is complete at this part of the backward pass; empty: unknown.
  std::vector<double> ready = {};
  double slowdown = 1;  // of links, relative to what was measured before the first step
};

/// Seconds of a step until the mean of all values is there.
using PredictStep = std::function<double(std::span<const SliceLoad>, const StepSpeeds&)>;

struct GradeAdaptationOptions {
  std::uint64_t run_seed = 1;
  int ranks = 1;          // or workers that this process plays
  int quantisations = 1;  // of each value, by the collective
  int threads = 1;        // that compute, of a rank
  double noise_share = 0.1, noise_cap = 0.5;
  // Rates, whose errors a memory keeps: they may be this part of the squares of what is to be sent.
  // Null: grades are unbiased, and noise_share and noise_cap hold.
  std::optional<double> error_share;
  StepId observe_every = 50;       // steps, after the first 4
  std::uint64_t decide_every = 4;  // observations
  bool pairs = false;              // ranks have different data: steps are observed in pairs
  std::uint32_t fingerprint = 0;   // of model and menu, for those who repeat decisions
  bool uses_clock = false;         // false: what StepSpeeds has of clocks is 0
  PredictStep predict;             // null: bytes decide
  /// Returns the batch of a rank, or worker, in the present step.
  std::function<RankBatch(Rank)> batch = [](Rank) { return RankBatch{}; };
  /// Decisions of another run after so many completed steps; null: this one decides.
  std::function<std::optional<Decision>(StepId done)> replay;
  StepId total_steps = 0;  // for which decisions must be there; 0: each is looked for in its step
};

/// Says which steps are observed and which decide. Pure. An observation is of one step, or of a
/// pair of steps in a row.
class ObservationSchedule {
 public:
  static constexpr StepId kFirstObservations = 4;

  /// @pre observe_every > 1 if pairs
  ObservationSchedule(StepId observe_every, std::uint64_t decide_every, bool pairs = false)
      : observe_every_(observe_every),
        decide_every_(decide_every),
        pair_(pairs ? 2 : 1),
        first_steps_(kFirstObservations * pair_) {}

  bool observes(StepId step) const noexcept { return begins(step) || completes(step); }
  /// @pre observes(step). @return false in the first step of a pair
  bool completes(StepId step) const noexcept {
    return step < first_steps_ ? step % pair_ == pair_ - 1
                               : step >= first_steps_ + pair_ - 1 && begins(step - (pair_ - 1));
  }
  /// @pre completes(step)
  bool decides(StepId step) const noexcept {
    const StepId first = step - (pair_ - 1);
    if (step < first_steps_) return (step / pair_ + 1) % decide_every_ == 0;
    // Multiples of observe_every_ among the first steps are counted there.
    const StepId later = first / observe_every_ - (first_steps_ - 1) / observe_every_;
    return (kFirstObservations + later) % decide_every_ == 0;
  }

 private:
  bool begins(StepId step) const noexcept {
    return step < first_steps_ || step % observe_every_ == 0;
  }

  StepId observe_every_;
  std::uint64_t decide_every_;
  StepId pair_;  // steps of an observation
  StepId first_steps_;
};

/// Keeps references to `comm` and `codec`. With fewer than 2 ranks nothing is observed, and slices
/// have a lossless grade if there is one.
/// @throws Error{data} if the decisions to be repeated are of another run than this one
std::unique_ptr<Adaptation> make_grade_adaptation(comm::Communicator& comm,
                                                  codec::MixedGrades& codec,
                                                  std::span<const pipeline::FusionBucket> plan,
                                                  GradeAdaptationOptions options);

}  // namespace eqt::adaptation
