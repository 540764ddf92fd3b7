// SPDX-License-Identifier: Apache-2.0
// Simulated ranks, which one process executes one after another.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/saved_state.hpp"
#include "data/loader.hpp"
#include "model/replica.hpp"

namespace eqt::train {

/// All of them share the parameters of one replica. The state that each rank has for itself,
/// running statistics and keys of random numbers, is exchanged when another worker uses the
/// replica, and so are the batches. Between steps worker 0 uses it, because rank 0 reports for a
/// job.
class Workers {
 public:
  /// Keeps references. All workers start with the replica's state.
  /// @param batches by worker, at least one
  Workers(model::Replica& replica, std::vector<data::BatchLoader*> batches);

  int count() const noexcept { return static_cast<int>(batches_.size()); }
  /// From now on this worker uses the replica.
  void select(Rank worker);
  /// The next batch of the worker that uses the replica; valid until its next call.
  const data::Batch& next_batch();
  /// All workers continue with batch number `batch` of `epoch`.
  void seek(std::uint64_t epoch, std::size_t batch);

  /// The mean of all workers' buffers, added in the order of workers.
  /// @param weights by worker, they sum to their number; empty: 1
  /// @pre worker 0 uses the replica
  void mean_of_buffers(std::span<float> mean, std::span<const double> weights = {});

  /// Visits the state of the workers that do not use the replica. @pre worker 0 uses the replica
  /// @throws Error{data} if the restored state is that of another number of workers
  void visit_state(StateVisitor& visitor);

 private:
  /// The state that each rank has for itself.
  struct Own {
    std::vector<float> values;
    std::vector<double> reals;
    std::vector<std::uint64_t> numbers;
  };
  class Keeper;

  model::Replica& replica_;
  const std::vector<data::BatchLoader*> batches_;  // by worker
  std::vector<Own> own_;                           // by worker; outdated for the one that uses it
  Rank selected_ = 0;
};

}  // namespace eqt::train
