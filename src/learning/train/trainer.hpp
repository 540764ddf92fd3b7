// SPDX-License-Identifier: Apache-2.0
// The training loop over interfaces. No torch, no MPI, no algorithm's name.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "core/clock.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/views.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "model/replica.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "sync/divergence.hpp"
#include "sync/synchronizer.hpp"
#include "sync/timeline.hpp"
#include "train/accumulation.hpp"
#include "train/batch_balancer.hpp"
#include "train/checkpointer.hpp"
#include "train/evaluator.hpp"
#include "train/gradient_observer.hpp"
#include "train/health_check.hpp"
#include "train/phases.hpp"
#include "train/run_statistics.hpp"
#include "train/selection.hpp"
#include "train/weight_average.hpp"
#include "train/workers.hpp"

namespace eqt::train {

/// The parts of a run; all must outlive the trainer.
struct Parts {
  comm::Communicator& comm;
  model::Replica& replica;
  data::BatchLoader* batches;     // null: emulated
  const data::Dataset* test_set;  // null: emulated
  optim::Optimizer& optimizer;
  const optim::Schedule& schedule;
  sync::Synchronizer& synchronizer;
  metrics::Sink& sink;                     // written to on rank 0 only
  Checkpointer* checkpointer = nullptr;    // null: nothing is saved
  sync::Divergence* divergence = nullptr;  // null: a value that is not finite ends the run
  GradientObserver* observer = nullptr;    // null: no observer
  // Simulated ranks of this process, each with its own batches; then there is one real rank, and
  // `batches` is null. Null: no simulation.
  Workers* workers = nullptr;
  BatchBalancer* balancer = nullptr;   // null: all ranks have batches of the same size
  sync::Timeline* timeline = nullptr;  // null: nothing is noted
  std::string best_weights = {};       // the file of the best evaluation's weights, of rank 0
};

struct Plan {
  StepId total_steps = 1;
  StepId steps_per_epoch = 1;
  double batch_size = 64;      // samples per rank and step, in the mean over ranks
  std::size_t accumulate = 1;  // batches per step
  // These are the weights of losses, by worker, or of this rank alone; empty: 1.
  std::vector<double> loss_weights = {};
  std::vector<double> buffer_weights = {};  // of running statistics in their mean, likewise
  bool own_test_set = false;         // each rank has one of its own, of which none has a part
  double clip_norm = 0;              // of the gradient that is applied; 0 = none
  std::uint64_t early_stopping = 0;  // it ends after so many epochs without a better one; 0 = never
  bool keeps_best = false;           // Parts::best_weights
  double ema = 0;                    // decay of the weights' moving average; 0 = none
  std::uint64_t evaluate_every = 1;  // epochs; 0 = only at the end
  bool synchronizes = true;          // ranks exchange data in every step
  bool replicas_equal = true;        // the algorithm keeps parameters identical on all ranks
  bool ends_equal = false;           // or makes them identical in the last step
  std::uint64_t final_rounds = 0;    // of mixing after the last step
  bool asynchronous = false;         // fast ranks take more of an epoch's steps
  bool emulated = false;             // the replica has no batches and no loss
  /// Position in the data, in steps, minus the steps taken. Not 0 after a run was resumed with
  /// another number of ranks or batch size, because epochs then have another number of steps.
  std::int64_t shift = 0;
  bool resumes = false;                       // from the state that Parts::checkpointer restores
  StepId checkpoint_every_steps = 0;          // 0 = never by steps
  std::uint64_t checkpoint_every_epochs = 0;  // 0 = never by epochs
  bool paranoid = false;       // compares replicas that must be equal after each step
  double rollback_factor = 1;  // of the learning rate, for each rollback
  std::optional<comm::Fault> fault;
  model::Measures measures = {};  // how good the network is
  data::TestViews test_views = data::TestViews::plain;

  /// The position in the data after `step` steps, in steps of the current partition.
  StepId position(StepId step) const {
    return static_cast<StepId>(static_cast<std::int64_t>(step) + shift);
  }
  /// True if the state after `done` steps is saved.
  bool saves_after(StepId done) const {
    if (checkpoint_every_steps == 0 && checkpoint_every_epochs == 0) return false;
    if (done == total_steps) return true;
    if (checkpoint_every_steps > 0 && done % checkpoint_every_steps == 0) return true;
    return checkpoint_every_epochs > 0 && ends_epoch(done) &&
           (epoch_of(done - 1) + 1) % checkpoint_every_epochs == 0;
  }
  /// Completed steps at the end of the epoch of `step`.
  StepId end_of_epoch(StepId step) const {
    const StepId end = (epoch_of(step) + 1) * steps_per_epoch;  // a position
    return std::min(total_steps, step + (end - position(step)));
  }
  std::uint64_t epoch_of(StepId step) const { return position(step) / steps_per_epoch; }  // from 0
  bool ends_epoch(StepId done) const {
    return position(done) % steps_per_epoch == 0 || done == total_steps;
  }
  /// The next number of completed steps, after `done`, at which all ranks save or end an epoch.
  StepId next_pause(StepId done) const {
    StepId pause = end_of_epoch(done);
    if (checkpoint_every_steps > 0)
      pause = std::min(pause, (done / checkpoint_every_steps + 1) * checkpoint_every_steps);
    return pause;
  }
  double loss_weight(std::size_t worker) const {
    return loss_weights.empty() ? 1 : loss_weights.at(worker);
  }
  bool evaluates_after(StepId done) const {
    const std::uint64_t epochs = epoch_of(done - 1) + 1;
    return done == total_steps || (evaluate_every > 0 && epochs % evaluate_every == 0);
  }
};

/// If a run diverges more often, smaller steps do not help.
inline constexpr std::uint64_t kMaxRollbacks = 5;

class Trainer {
 public:
  Trainer(const Parts& parts, const Plan& plan);
  /// Trains from rank 0's initial weights. Returns the summary, without names, which is the same on
  /// all ranks. Collective.
  metrics::Summary run();
  /// The replica becomes what is evaluated: the moving average of the weights, if there is one,
  /// with the mean of all ranks' buffers, and for algorithms that mix models the mean of these,
  /// too. Collective.
  void adopt_result();
  /// Visits the whole state of this rank.
  void visit_state(StateVisitor& visitor);

 private:
  /// The numbers of a step.
  struct StepNumbers {
    StepId own;     // completed by this rank before
    StepId common;  // completed by the mean rank, as far as known; equal unless asynchronous
  };

  struct StepOutcome {
    double seconds;
    bool met;  // ranks exchanged messages
  };

  void begin();
  void share_initial_state();
  void go_to(StepId done);
  void say_that_it_has_stopped(StepId done);
  void measure_again();
  void seek(StepId own);
  void save_if_due();
  void save_in_memory_if_due();
  bool may_save();
  void run_in_step();
  void run_asynchronously();
  void train_until_pause();
  bool finish_epoch();
  void run_final_rounds();
  bool may_go_back() const { return p_.divergence != nullptr && p_.divergence->recovers(); }
  std::uint64_t parameter_hash();
  double model_weight() const;
  sync::OwnPace& pace() const;  // @pre Plan::asynchronous

  void enter(const Phase& phase, StepId step = 0);
  void write_results(const sync::SyncResult& result, StepId step);
  bool messages_under_way() const;

  // In trainer_step.cpp.
  StepOutcome train_step(const StepNumbers& step);
  ObservedStep observed_step(const StepNumbers& step) const;
  bool compute_gradient(const StepNumbers& step, metrics::StepRecord& record);
  bool compute_worker_gradients(const StepNumbers& step, metrics::StepRecord& record);
  void clip_gradient();
  StepId completed(const StepNumbers& step);

  void begin_timeline();
  void write_timeline();
  void weigh_batches();
  void take_batches(std::uint64_t epoch, std::size_t batch);
  void balance(const metrics::StepRecord& record);
  void exchange_with_average();
  Assessment assess();
  void select(const Assessment& assessment);
  void keep_best();

  void inject_fault(comm::Fault::Phase phase, StepId step);
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
  CurrentPhase phase_;
  RunStatistics statistics_;
  Evaluator evaluator_;
  HealthCheck health_check_;
  double unchecked_seconds_ = 0;  // of the steps since its last one
  Accumulation accumulation_;
  Selection selection_;
  std::optional<WeightAverage> average_;
  double rate_factor_ = 1;       // of the schedule's learning rate, smaller after rollbacks
  std::uint64_t rollbacks_ = 0;  // so far
  bool was_under_way_ = false;   // messages, after the step before
  bool fault_injected_ = false;  // at least once
  bool epoch_open_ = false;      // its steps are done, but it is not evaluated yet
  bool final_rounds_done_ = false;
  bool memory_due_ = false;  // the state is to be kept in memory after this step; on all ranks
  Stopwatch wall_;
  double wall_before_ = 0;  // of earlier starts of this run [seconds]
  StepId done_ = 0;         // completed steps
  StepId own_ = 0;          // completed by this rank; different only if asynchronous
  data::Batch no_batch_;    // for an emulated replica
};

}  // namespace eqt::train
