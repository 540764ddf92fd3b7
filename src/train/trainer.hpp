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
#include "train/evaluator.hpp"
#include "train/fault.hpp"
#include "train/ledger.hpp"
#include "train/synchronizer.hpp"

namespace eqt::train {

/// What a run is made of; everything outlives the trainer.
struct Parts {
  comm::Communicator& comm;
  model::Replica& replica;
  data::BatchLoader* batches;     // null: emulated
  const data::Dataset* test_set;  // null: emulated
  optim::Optimizer& optimizer;
  const optim::Schedule& schedule;
  Synchronizer& synchronizer;
  metrics::Sink& sink;  // written to on rank 0 only
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
  std::optional<Fault> fault;

  /// Steps completed when the epoch of `step` has ended.
  StepId end_of_epoch(StepId step) const {
    return std::min(total_steps, (epoch_of(step) + 1) * steps_per_epoch);
  }
  std::uint64_t epoch_of(StepId step) const { return step / steps_per_epoch; }  // from 0
  bool ends_epoch(StepId done) const { return done % steps_per_epoch == 0 || done == total_steps; }
  bool evaluates_after(StepId done) const {
    const std::uint64_t epochs = epoch_of(done - 1) + 1;
    return done == total_steps || (evaluate_every > 0 && epochs % evaluate_every == 0);
  }
};

class Trainer {
 public:
  Trainer(const Parts& parts, const Plan& plan);
  /// Trains from rank 0's initial weights. Returns the summary but for names; the same on all
  /// ranks. Collective.
  metrics::Summary run();
  /// Where ranks mix models that differ: each replica becomes the mean of all, buffers included.
  /// Collective.
  void adopt_mean_model();

 private:
  /// A step of this rank among those of all.
  struct StepNumbers {
    StepId own;     // completed by this rank before
    StepId common;  // by the mean rank, as far as this one knows; equal unless asynchronous
  };

  void share_initial_state();
  void run_in_step();
  void run_asynchronously();
  void train_step(const StepNumbers& step);
  StepId completed(const StepNumbers& step);
  void finish_epoch(StepId done);
  void mix_finally();
  std::uint64_t parameter_hash();

  Parts p_;
  Plan plan_;
  Ledger ledger_;
  Evaluator evaluator_;
  Stopwatch wall_;
  data::Batch no_batch_;  // what an emulated replica gets
};

}  // namespace eqt::train
