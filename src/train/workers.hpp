// SPDX-License-Identifier: Apache-2.0
// Workers that one process plays one after the other, each as if it were a rank.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/saved_state.hpp"
#include "data/loader.hpp"
#include "model/replica.hpp"

namespace eqt::train {

/// All of them share the parameters of one replica. What each rank has for itself, running
/// statistics and the names of its random numbers, is exchanged when another worker uses the
/// replica, and so are its batches. Between steps worker 0 uses it, as rank 0 reports for a job.
class Workers {
 public:
  /// Keeps references. All begin with what the replica has.
  /// @param batches by worker, at least one
  Workers(model::Replica& replica, std::vector<data::BatchLoader*> batches);

  int count() const noexcept { return static_cast<int>(batches_.size()); }
  /// The replica is this worker's from now on.
  void select(Rank worker);
  /// Of the worker that uses the replica; valid until its next one.
  const data::Batch& next_batch();
  /// All workers continue with batch number `batch` of `epoch`.
  void seek(std::uint64_t epoch, std::size_t batch);

  /// Every worker's buffers become the mean of all, added in the order of workers.
  /// @pre worker 0 uses the replica
  void average_buffers();
  /// Undoes the last average_buffers().
  void restore_buffers();

  /// The state of the workers that do not use the replica now. @pre worker 0 uses the replica
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
  std::vector<std::vector<float>> before_;         // by worker: buffers before they were averaged
  Rank selected_ = 0;
};

}  // namespace eqt::train
