// SPDX-License-Identifier: Apache-2.0
// The training loop over interfaces. No torch, no MPI, no algorithm's name.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "comm/communicator.hpp"
#include "core/clock.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "model/replica.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/checkpointer.hpp"
#include "train/divergence.hpp"
#include "train/evaluator.hpp"
#include "train/fault.hpp"
#include "train/gradient_observer.hpp"
#include "train/health_check.hpp"
#include "train/run_statistics.hpp"
#include "train/synchronizer.hpp"
#include "train/workers.hpp"

namespace eqt::train {

/// The parts of a run; everything outlives the trainer.
struct Parts {
  comm::Communicator& comm;
  model::Replica& replica;
  data::BatchLoader* batches;     // null: emulated
  const data::Dataset* test_set;  // null: emulated
  optim::Optimizer& optimizer;
  const optim::Schedule& schedule;
  Synchronizer& synchronizer;
  metrics::Sink& sink;                   // written to on rank 0 only
  Checkpointer* checkpointer = nullptr;  // null: nothing is saved
  Divergence* divergence = nullptr;      // null: what is not finite ends the run
  GradientObserver* observer = nullptr;  // null: nothing observes this rank's gradient
  // That this process plays in turn, as if they were ranks, with batches of their own; the only
  // rank then, and `batches` is null. Null: the rank is one itself.
  Workers* workers = nullptr;
};

struct Plan {
  StepId total_steps = 1;
  StepId steps_per_epoch = 1;
  std::size_t batch_size = 64;       // per rank
  std::uint64_t evaluate_every = 1;  // epochs; 0 = only at the end
  bool synchronizes = true;          // ranks exchange something in every step
  bool replicas_equal = true;        // the algorithm keeps parameters identical on all ranks
  bool ends_equal = false;           // or makes them so in the last step
  std::uint64_t final_rounds = 0;    // of mixing alone after the last step
  bool asynchronous = false;         // ranks share an epoch's steps, the fast ones take more
  bool emulated = false;             // the replica needs no batches, has no loss, learns nothing
  /// The run's position in the data, in steps, minus the steps that it took: not 0 after a run was
  /// resumed with another number of ranks or batch size, which divide an epoch differently.
  std::int64_t shift = 0;
  bool resumes = false;                       // from what Parts::checkpointer restores
  StepId checkpoint_every_steps = 0;          // 0 = never by steps
  std::uint64_t checkpoint_every_epochs = 0;  // 0 = never by epochs
  bool paranoid = false;       // replicas that must be equal are compared after each step
  double rollback_factor = 1;  // of the learning rate, each time that the run goes back
  std::optional<Fault> fault;

  /// Steps of this partition that lead to the run's position after `step` steps.
  StepId position(StepId step) const {
    return static_cast<StepId>(static_cast<std::int64_t>(step) + shift);
  }
  /// Whether the state after `done` steps is saved.
  bool saves_after(StepId done) const {
    if (checkpoint_every_steps == 0 && checkpoint_every_epochs == 0) return false;
    if (done == total_steps) return true;
    if (checkpoint_every_steps > 0 && done % checkpoint_every_steps == 0) return true;
    return checkpoint_every_epochs > 0 && ends_epoch(done) &&
           (epoch_of(done - 1) + 1) % checkpoint_every_epochs == 0;
  }
  /// Steps completed when the epoch of `step` has ended.
  StepId end_of_epoch(StepId step) const {
    const StepId end = (epoch_of(step) + 1) * steps_per_epoch;  // a position
    return std::min(total_steps, step + (end - position(step)));
  }
  std::uint64_t epoch_of(StepId step) const { return position(step) / steps_per_epoch; }  // from 0
  bool ends_epoch(StepId done) const {
    return position(done) % steps_per_epoch == 0 || done == total_steps;
  }
  /// The first step count at which, after `done` steps, all ranks stop to save or to end an epoch.
  StepId next_pause(StepId done) const {
    StepId pause = end_of_epoch(done);
    if (checkpoint_every_steps > 0)
      pause = std::min(pause, (done / checkpoint_every_steps + 1) * checkpoint_every_steps);
    return pause;
  }
  bool evaluates_after(StepId done) const {
    const std::uint64_t epochs = epoch_of(done - 1) + 1;
    return done == total_steps || (evaluate_every > 0 && epochs % evaluate_every == 0);
  }
};

/// A run that diverges more often is not helped by smaller steps.
inline constexpr std::uint64_t kMostRollbacks = 5;

class Trainer {
 public:
  Trainer(const Parts& parts, const Plan& plan);
  /// Trains from rank 0's initial weights. Returns the summary without names; the same on all
  /// ranks. Collective.
  metrics::Summary run();
  /// Where ranks mix models that differ: each replica becomes the mean of all, buffers included.
  /// Collective.
  void adopt_mean_model();
  /// Everything that this rank carries from step to step.
  void visit_state(StateVisitor& visitor);

 private:
  /// A step of this rank among those of all.
  struct StepNumbers {
    StepId own;     // completed by this rank before
    StepId common;  // by the mean rank, as far as this one knows; equal unless asynchronous
  };

  struct StepOutcome {
    double seconds;
    bool met;  // ranks exchanged something
  };

  void begin();
  void share_initial_state();
  void go_to(StepId done);
  void save_if_due();
  void run_in_step();
  void run_asynchronously();
  void train_until_pause();
  StepOutcome train_step(const StepNumbers& step);
  ObservedStep observed_step(const StepNumbers& step) const;
  bool compute_gradient(const StepNumbers& step, const Stopwatch& total,
                        metrics::StepRecord& record);
  bool compute_worker_gradients(const StepNumbers& step, metrics::StepRecord& record);
  StepId completed(const StepNumbers& step);
  bool finish_epoch();
  void run_final_rounds();
  std::uint64_t parameter_hash();

  // In trainer_health.cpp.
  void inject_fault(Fault::Phase phase, StepId step);
  HealthReport report(bool with_hash);
  bool check_health_after_step(const StepOutcome& outcome);
  bool check_health_now();
  bool act_on(const HealthStatus& status);
  [[noreturn]] void stop(Rank told);
  void compare_replicas();
  void require_finite_model(StepId step);
  void require_finite_loss(StepId step, double loss, Rank rank);
  void require_finite_assessment(const Assessment& assessment);
  void roll_back(Rank diverged);

  Parts p_;
  Plan plan_;
  RunStatistics statistics_;
  Evaluator evaluator_;
  HealthCheck health_check_;
  double rate_factor_ = 1;       // of the schedule's learning rate, smaller after rollbacks
  std::uint64_t rollbacks_ = 0;  // so far
  bool fault_injected_ = false;  // at least once
  bool epoch_open_ = false;      // its steps are done, but it was not evaluated yet
  bool final_rounds_done_ = false;
  Stopwatch wall_;
  double wall_before_ = 0;  // of the runs that this one continues [seconds]
  StepId done_ = 0;         // completed steps
  StepId own_ = 0;          // likewise by this rank; others only if asynchronous
  data::Batch no_batch_;    // what an emulated replica gets
};

}  // namespace eqt::train
