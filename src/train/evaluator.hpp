// SPDX-License-Identifier: Apache-2.0
// The quality of the replicas: of each, of their mean, and how far apart they are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "core/flat_buffer.hpp"
#include "data/dataset.hpp"
#include "data/partition.hpp"
#include "model/replica.hpp"
#include "train/workers.hpp"

namespace eqt::train {

inline constexpr std::size_t kTestBatch = 250;  // images that are tested at a time

/// How far n models x_i are from their mean, in parameters; buffers do not count.
struct Consensus {
  double distance = 0;  // sqrt(1/n sum_i |x_i - mean|^2)
  double relative = 0;  // distance / |mean|
};

/// The same on every rank.
struct Assessment {
  /// On the whole test set; empty: it was not looked at.
  std::optional<model::Evaluation> model;
  bool averaged = false;  // `model` is the mean of replicas that differ
  /// By rank, each with its own model and buffers on the whole test set; empty: replicas are equal,
  /// or the test set was not evaluated.
  std::vector<model::Evaluation> nodes;
  std::optional<Consensus> consensus;  // empty: replicas are equal
  /// Buffers that stay averaged, because replicas are equal except for them [values].
  std::size_t averaged_buffers = 0;
  /// Sent for this assessment by all ranks, where replicas differ.
  std::uint64_t sent_bytes = 0;
  /// A rank was told to stop before it had seen all samples: there is no evaluation.
  bool abandoned = false;
  std::optional<bool> replicas_identical;  // empty: they need not be
};

/// Which replicas to evaluate.
enum class Replicas {
  equal,  // but for buffers: each rank evaluates its share of the test set with the mean of these
  mixed,  // they differ, and what the ranks have learnt together is their mean
  alone   // they have nothing to do with each other: each evaluates its share as it is
};

/// Everything outlives it. Every call is collective.
class Evaluator {
 public:
  /// @param test_set null: there is none, and only adopt_mean() may be called
  /// @param workers that share the replica, as if they were ranks whose replicas are equal; null:
  /// the replica belongs to this rank only
  Evaluator(comm::Communicator& comm, model::Replica& replica, const data::Dataset* test_set,
            Replicas replicas, Workers* workers = nullptr);

  /// Called with the samples that this rank has evaluated of those that an assessment takes, from
  /// 0 on.
  using Progress = std::function<void(std::size_t done, std::size_t samples)>;
  void on_progress(Progress report) { report_progress_ = std::move(report); }

  /// Leaves the parameters as they are, bit for bit, and buffers too unless replicas are equal.
  /// @param on_test_set otherwise only the consensus, if replicas differ
  /// @param weight what this rank's model counts in the mean, see Synchronizer::weight()
  Assessment assess(bool on_test_set, double weight);

  /// Mixed replicas: each becomes the mean of all, buffers included.
  void adopt_mean(double weight);

 private:
  void assess_equal(Assessment& result);
  void assess_different(bool on_test_set, double weight, Assessment& result);
  static void abandon(Assessment& result);
  void form_mean(double weight);
  void exchange_with_mean();
  model::Evaluation sum_over_ranks(const model::Evaluation& own);
  std::vector<model::Evaluation> gather(const model::Evaluation& own);
  Consensus consensus();
  model::Evaluation evaluate(data::Range samples);
  model::Evaluation evaluate_all(const model::Evaluation& own_share);
  model::Evaluation evaluate_shares();
  void average_for_good(std::span<float> buffers);
  void undo_average(std::span<float> buffers);
  data::Range share() const;
  std::size_t samples_of_assessment() const;

  comm::Communicator& comm_;
  model::Replica& replica_;
  const data::Dataset* test_set_;
  const Replicas replicas_;
  Workers* const workers_;
  FlatBuffer mean_, mean_buffers_;  // of all ranks; made when first needed
  FlatBuffer own_buffers_;          // before they were averaged for good
  bool abandoned_ = false;          // this rank has left samples out; after a sum, any rank has
  Progress report_progress_;        // may be empty
  std::size_t evaluated_ = 0;       // samples, in this assessment
  data::Batch batch_;
  std::vector<std::size_t> indices_;
};

}  // namespace eqt::train
