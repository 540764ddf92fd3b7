// SPDX-License-Identifier: Apache-2.0
// The state of a quorum's rounds that a rank's trainer and its communication thread share.

#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "core/saved_state.hpp"
#include "core/traffic.hpp"
#include "sync/local_sgd.hpp"
#include "sync/own_pace.hpp"
#include "sync/quorum/quorum_replay.hpp"

namespace eqt::sync {

struct QuorumProgressOptions {
  Rank rank = 0;
  std::size_t ranks = 1;
  std::size_t values = 0;  // of the model
  StepId local_steps = 1;  // H
  StepId delay = 1;        // D, in [1, H]
  OuterStep outer = {};    // without mixing and by_rate
  const QuorumReplay* replay = nullptr;
};

/// The common model r, this rank's difference p, and what rounds have moved r by since this rank's
/// model was told. Thread-safe; calls do not wait unless their comment says so.
///
/// After H steps since its last difference a rank's p = r - x is ready. When its round's mean has
/// come, D steps after that and not earlier, x += p - s, else x -= s, as soon as a round has come,
/// where s is the sum over the rounds. So nobody's progress is lost: what is not in p is in the
/// next one.
class QuorumProgress : public SharedProgress {
 public:
  struct Applied {
    std::uint64_t round;  // from 1
    StepId own_steps;     // this rank's, completed
  };
  struct Taken {
    Traffic traffic;
    std::optional<double> variance;
    unsigned rounds = 0;  // applied
  };

  explicit QuorumProgress(const QuorumProgressOptions& options);

  // The trainer's side.
  /// Before the first step: all ranks have these parameters.
  void start(std::span<const float> parameters);
  /// An epoch begins, and ends with the round that makes the steps of all ranks `goal`.
  void open(std::uint64_t goal);
  /// True if end_step() would wait for the round of this rank's difference.
  bool would_wait() const;
  /// This rank has completed a step: applies what has come, and makes the next difference if it is
  /// due. Waits for the round that has this rank's difference D steps after that was made, but not
  /// if the epoch or the run ends.
  /// @return true if there is a new difference
  bool end_step(std::span<float> parameters);
  /// After the communication thread has finished: applies all rounds.
  void apply_rest(std::span<float> parameters);
  /// Before the last round of a run, which is of all ranks: makes difference = r - parameters.
  /// @return steps that have not counted
  std::uint64_t make_last(std::span<const float> parameters, std::span<float> difference);
  /// All ranks continue from r.
  /// @param counted by all ranks in that round
  void apply_last(std::span<const float> mean, std::uint64_t counted, std::span<float> parameters);
  std::span<float> own() { return own_.span(); }  // p, while it is outstanding
  std::uint64_t counted() const;  // steps of all ranks, in rounds that this rank has applied
  StepId own_steps() const;
  Taken take();
  /// The rounds since the last call, in order.
  std::vector<Applied> take_applied();
  /// While the communication thread does not run.
  void visit_state(StateVisitor& visitor);

  // The communication thread's side.
  /// Steps that count for this rank's difference, once for each difference and epoch.
  std::optional<std::uint64_t> take_ready();
  void copy_own(std::span<float> difference) const;
  /// A round's mean is there. In a replay waits until the trainer wants it.
  void apply(std::uint64_t round, std::span<const std::uint64_t> counts,
             std::span<const float> mean);
  std::uint64_t rounds() const;
  bool epoch_complete() const;  // no round may follow in this epoch
  void spent(const Traffic& traffic, std::optional<double> variance);
  /// The run is to stop: nobody waits for rounds any more.
  void note_stop();
  /// No round follows in this epoch.
  void end();
  std::span<const float> common() const { return reference_.span(); }  // r

 private:
  using Lock = std::unique_lock<std::mutex>;

  std::uint64_t wanted_round() const;
  void wait_for(std::uint64_t round, Lock& lock);
  void merge(std::span<float> parameters);
  void make_difference(std::span<const float> parameters);
  bool gives_up() const { return failed_ || stopping_ || ended_; }
  bool replays() const { return o_.replay != nullptr && o_.replay->has(taken_ + 1); }
  bool is_due() const { return outstanding_ && own_steps_ >= due_; }

  const QuorumProgressOptions o_;
  // Guarded by mutex_.
  FlatBuffer reference_;  // r, after all rounds that have come: the same on all ranks
  FlatBuffer momentum_;   // z
  FlatBuffer own_;        // p
  FlatBuffer shift_;      // s of the rounds that are not applied here, one after the other
  StepId own_steps_ = 0;
  StepId made_ = 0;            // own steps when p was made, or the run began
  StepId counted_ = 0;         // own steps that were in rounds
  StepId due_ = 0;             // own steps after which p's round is waited for and applied
  bool outstanding_ = false;   // p's round has not been applied
  bool announced_ = false;     // rank 0 was told of p in this epoch
  bool own_in_shift_ = false;  // p's round has come
  std::uint64_t rounds_ = 0, taken_ = 0;              // that have come; that are applied here
  std::uint64_t counted_all_ = 0, counted_here_ = 0;  // steps of all ranks in these
  std::uint64_t goal_ = 0;
  std::uint64_t want_ = 0;  // in a replay: rounds up to this one may come
  bool ended_ = false, stopping_ = false;
  Taken spent_;
  std::vector<Applied> applied_;
};

}  // namespace eqt::sync
