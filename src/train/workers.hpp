// Workers that one process plays one after the other, each as if it were a rank.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/saved_state.hpp"
#include "data/loader.hpp"
#include "model/replica.hpp"

namespace eqt::train {

/// All share the parameters of one replica. What ranks have each their own, running statistics and
/// the names of their random numbers, is exchanged when another worker takes its seat; so are its
/// batches. Between steps worker 0 has the seat, as rank 0 speaks for a job.
class Workers {
 public:
  /// Keeps references. All begin with what the replica has.
  /// @param batches by worker, at least one
  Workers(model::Replica& replica, std::vector<data::BatchLoader*> batches);

  int count() const noexcept { return static_cast<int>(batches_.size()); }
  /// The replica is this worker's from now on.
  void seat(Rank worker);
  /// Of the worker that has the seat; valid until its next one.
  const data::Batch& next_batch();
  /// All go on with batch number `batch` of `epoch`.
  void seek(std::uint64_t epoch, std::size_t batch);

  /// Every worker's buffers become the mean of all, added in the order of workers.
  /// @pre worker 0 has the seat
  void average_buffers();
  /// As if the last average_buffers() had not been.
  void restore_buffers();

  /// What the workers that have no seat hold. @pre worker 0 has the seat
  /// @throws Error{data} if what is restored is of another number of workers
  void visit_state(StateVisitor& visitor);

 private:
  /// What one rank has and others do not.
  struct Own {
    std::vector<float> values;
    std::vector<double> reals;
    std::vector<std::uint64_t> numbers;
  };
  class Keeper;

  model::Replica& replica_;
  const std::vector<data::BatchLoader*> batches_;  // by worker
  std::vector<Own> own_;                           // by worker; old for the one that has the seat
  std::vector<std::vector<float>> before_;         // by worker: buffers before they were averaged
  Rank seated_ = 0;
};

}  // namespace eqt::train
