// The training loop over interfaces. No torch, no MPI, no algorithm's name.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "core/clock.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "model/replica.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/fault.hpp"
#include "train/synchronizer.hpp"

namespace eqt::train {

/// What a run is made of; everything outlives the trainer.
struct Parts {
  comm::Communicator& comm;
  model::Replica& replica;
  data::BatchLoader& batches;
  const data::Dataset& test_set;
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
  bool replicas_equal = true;        // the algorithm keeps parameters identical on all ranks
  std::optional<Fault> fault;

  bool ends_epoch(StepId done) const { return done % steps_per_epoch == 0 || done == total_steps; }
  std::uint64_t epoch_of(StepId step) const { return step / steps_per_epoch; }
};

class Trainer {
 public:
  Trainer(const Parts& parts, const Plan& plan);
  /// Trains from rank 0's initial weights. Fills what the loop knows of the summary; the same on
  /// all ranks. Collective.
  metrics::Summary run();

 private:
  /// What one rank knows of a step before the ranks have added it up.
  struct LocalStep {
    metrics::StepRecord record;
    std::uint64_t encoded_bytes, encoded_values;
  };
  /// Sums over steps and ranks.
  struct Totals {
    StepId steps = 0;
    double loss = 0;               // summed over steps, mean over ranks
    double seconds_total = 0;      // of this rank
    metrics::RoomSeconds seconds;  // of this rank
    double sent_bytes = 0, received_bytes = 0, dense_bytes = 0;
    double encoded_bytes = 0, encoded_values = 0;
    double variance = 0;  // summed over measurements of this rank
    double variance_count = 0;
    void operator+=(const Totals& other);
  };

  void share_initial_state();
  void train_step(StepId step);
  void note_step(StepId step, double loss, double rate, const metrics::RoomSeconds& seconds,
                 const SyncResult& result);
  void flush_steps();
  void finish_epoch(StepId done);
  void average_buffers();
  model::Evaluation evaluate();
  metrics::RoomSeconds slowest(const metrics::RoomSeconds& seconds);
  metrics::Summary summarize();
  bool replicas_identical(std::uint64_t hash);

  Parts p_;
  Plan plan_;
  Stopwatch wall_;
  std::vector<LocalStep> unflushed_;
  std::vector<double> reduction_;
  StepId flush_every_ = 1;
  Totals epoch_, run_;
  std::uint64_t epochs_done_ = 0;
  metrics::RoomSeconds slowest_seconds_;  // summed over epochs
  double train_loss_ = 0;                 // of the last epoch
  std::optional<double> accuracy_, best_accuracy_;
  data::Batch test_batch_;
};

}  // namespace eqt::train
