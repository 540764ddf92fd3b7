// SPDX-License-Identifier: Apache-2.0
// The mean over workers that one process plays one after the other, bit for bit that of a
// collective of as many ranks.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "core/traffic.hpp"
#include "pipeline/plan.hpp"

namespace eqt::collective {

/// Nothing is sent. The mean is bit for bit that of the collective of that name on as many ranks.
/// Byte counts are those that all ranks together would have sent.
class WorkerMean {
 public:
  virtual ~WorkerMean() = default;
  virtual const CollectiveRow& row() const noexcept = 0;

  /// Reads the worker's values of the bucket from the flat buffer `values`, which may then be
  /// overwritten. To be called once for each worker, in any order.
  virtual void take(Rank worker, const FusionBucket& bucket, const MeanContext& context,
                    std::span<const float> values, Traffic& traffic) = 0;
  /// When all workers have contributed: writes the mean into the bucket's part of `values`.
  virtual void mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
                    Traffic& traffic) = 0;
  /// Returns what the worker contributed to the bucket's last mean; valid until its next take().
  virtual Contribution contribution(Rank worker, const FusionBucket& bucket) const = 0;

  /// True if take() does error feedback, see Collective::takes_residual().
  virtual bool takes_residual() const noexcept { return false; }

  /// State of all workers, see Collective::visit_state().
  virtual void visit_state(StateVisitor&) {}
};

/// Holds what a mean for workers is made from. Everything referred to outlives it.
struct WorkerParts {
  const codec::Compressor& compressor;
  std::span<const FusionBucket> plan;
  int workers = 1;
  bool reducer_feedback = false;  // as CollectiveParts
  float feedback_decay = 1;       // likewise
};

/// Keeps what each worker contributes until all have contributed, for means of all exact values.
class KeptValues {
 public:
  KeptValues(std::span<const FusionBucket> plan, int workers)
      : flat_(static_cast<std::size_t>(workers), std::vector<float>(plan.front().end)) {}

  void keep(Rank worker, const FusionBucket& bucket, std::span<const float> values) {
    std::ranges::copy(values.subspan(bucket.begin, bucket.count()),
                      flat_[static_cast<std::size_t>(worker)].begin() +
                          static_cast<std::ptrdiff_t>(bucket.begin));
  }
  /// The flat buffer of the worker's values.
  std::span<const float> of(Rank worker) const { return flat_[static_cast<std::size_t>(worker)]; }

 private:
  std::vector<std::vector<float>> flat_;  // (workers, values)
};

/// Makes the mean of make_allgather() for workers. Keeps references to both.
std::unique_ptr<WorkerMean> make_worker_allgather(const codec::Compressor& compressor,
                                                  std::span<const FusionBucket> plan, int workers);

/// Makes the mean of make_scatter_reduce() for workers.
/// @throws Error{usage} for compressors that need whole slices
std::unique_ptr<WorkerMean> make_worker_scatter_reduce(const WorkerParts& parts);

/// Makes the mean of make_sparse() for workers.
/// @throws Error{usage} for compressors that are not sparse
std::unique_ptr<WorkerMean> make_worker_sparse(const WorkerParts& parts);

/// Makes the mean of make_dense() for workers.
std::unique_ptr<WorkerMean> make_worker_dense(std::span<const FusionBucket> plan, int workers);

}  // namespace eqt::collective
