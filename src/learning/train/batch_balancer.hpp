// SPDX-License-Identifier: Apache-2.0
// Batches by speed: fast ranks compute more samples of a step than slow ones.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/saved_state.hpp"
#include "data/loader.hpp"
#include "metrics/decisions.hpp"
#include "metrics/records.hpp"
#include "train/batch_allocation.hpp"

namespace eqt::train {

/// The kind of its decisions.
inline constexpr const char* kBatchDecisions = "batches";

struct BalanceOptions {
  std::vector<std::size_t> batches;  // by rank, to begin with
  std::size_t least = 8;             // samples of a batch
  StepId every = 50;                 // steps between decisions; 0: the batches stay
  bool own_samples = false;          // each rank has a data set of its own
  bool weighs = true;                // false: something else gives ranks their weights
  /// Decisions of another run, which are repeated; nothing is measured then.
  std::optional<metrics::Replay> replay = {};
};

/// Divides each step's B samples among the ranks (idea: C. Chen et al., "Fast distributed deep
/// learning via worker-adaptive batch sizing", 2018, arXiv:1806.02508, LB-BSP). A rank's mean
/// gradient over its b_i samples is multiplied by n b_i / B before it is compressed, so the mean
/// over ranks is the mean over the B samples, whatever the batches. B never changes, and so the
/// learning rate does not need to. Where ranks have data sets of their own, the samples of fast
/// ranks count more, since they are visited more often: the mean is one over samples, not over
/// ranks.
///
/// Every `every` steps (in the beginning sooner, since the first batches know nothing) ranks tell
/// each other the median of their computing seconds. New batches are taken if the slowest rank is
/// expected to end at least kGain sooner; no batch more than doubles or halves at once.
class BatchBalancer {
 public:
  static constexpr double kGain = 0.05;

  /// @param comm outlives it
  BatchBalancer(comm::Communicator& comm, BalanceOptions options);

  const std::vector<std::size_t>& batches() const noexcept { return batches_; }
  std::size_t own() const { return batches_.at(static_cast<std::size_t>(comm_.rank())); }
  /// This rank's samples: among those of a batch of all ranks, or of its own.
  data::BatchLoader::Deal deal() const;
  /// Returns the weight of this rank's gradient and loss, or 1 if something else gives it one; the
  /// weights of all ranks sum to their number.
  double weight() const;

  /// Notes the seconds in which this rank computed its part of a step, without waiting for others.
  void note_step(double seconds);
  /// Called after `done` steps. Rank 0 decides, so that all ranks have the same batches. @return
  /// what was decided, on all ranks, if the batches are new. Collective in the steps that are due.
  /// @throws Error{data} if what is replayed does not fit this run
  std::optional<metrics::DecisionRecord> decide(StepId done);

  /// Visits the batches and what was measured; another number of ranks begins anew, and another
  /// number of samples with the batches of the options.
  void visit_state(StateVisitor& visitor);

 private:
  bool is_due(StepId done) const;
  std::vector<std::size_t> find_better() const;
  std::vector<RankSpeed> speeds() const;
  metrics::DecisionRecord take(StepId done, std::vector<std::size_t> batches, std::string why);
  std::optional<metrics::DecisionRecord> repeat(StepId done);

  comm::Communicator& comm_;
  const BalanceOptions options_;
  const std::size_t total_;  // B
  std::vector<std::size_t> batches_;
  std::vector<double> window_;            // seconds of this rank's steps since the last decision
  std::vector<SpeedEstimate> estimates_;  // by rank, the same on all ranks
};

}  // namespace eqt::train
