// SPDX-License-Identifier: Apache-2.0
// Evaluates the replicas: each one, their mean, and their distance.

#pragma once

#include <algorithm>
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
#include "data/views.hpp"
#include "model/array_loss.hpp"
#include "model/averaged_views.hpp"
#include "model/replica.hpp"
#include "train/workers.hpp"

namespace eqt::train {

inline constexpr std::size_t kTestBatch = 250;  // samples per test batch, at most

/// Samples per test batch. A language model has an output for each place and token: it gets no more
/// than in training.
inline std::size_t test_batch_of(const model::TaskRow& task, std::size_t batch_size) {
  return task.target == data::TargetKind::tokens ? std::min(kTestBatch, batch_size) : kTestBatch;
}

/// The distance of n models x_i from their mean, in parameters without buffers.
struct Consensus {
  double distance = 0;  // sqrt(1/n sum_i |x_i - mean|^2)
  double relative = 0;  // distance / |mean|
};

/// An assessment is the same on every rank.
struct Assessment {
  /// On the whole test set, or on those of all ranks; empty if it was not evaluated.
  std::optional<model::Evaluation> model;
  bool averaged = false;  // `model` is for the mean of different replicas
  /// Each rank has an evaluation of its own model and buffers on the whole test set, or its own.
  /// There are none if replicas are equal, or the test set was not evaluated.
  std::vector<model::Evaluation> nodes;
  std::optional<Consensus> consensus;  // empty: replicas are equal
  /// Buffers whose mean was evaluated, because replicas are equal except for them [values].
  std::size_t averaged_buffers = 0;
  /// Bytes that all ranks sent for this, if replicas differ.
  std::uint64_t sent_bytes = 0;
  /// A rank was told to stop before the end: there is no evaluation.
  bool abandoned = false;
  std::optional<bool> replicas_identical;  // empty: they need not be
};

/// Tells which replicas to evaluate.
enum class Replicas {
  equal,  // except for buffers: each rank evaluates its share of the test set with mean buffers
  mixed,  // they differ, and their mean is the result of training
  alone   // they are independent: each evaluates its share with its own model
};

/// Everything outlives it. Every call is collective.
class Evaluator {
 public:
  /// @param test_set null: none, and only adopt_mean() may be called
  /// @param workers that share the replica, as if they were ranks whose replicas are equal; null:
  /// the replica belongs to this rank only
  /// @param sums of an evaluation, see model::Measures
  Evaluator(comm::Communicator& comm, model::Replica& replica, const data::Dataset* test_set,
            Replicas replicas, Workers* workers = nullptr, std::size_t sums = 1);

  /// Called with the number of samples that this rank has evaluated in an assessment, from 0 on,
  /// and their total.
  using Progress = std::function<void(std::size_t done, std::size_t samples)>;
  void on_progress(Progress report) { report_progress_ = std::move(report); }

  /// Each rank's test set is its own, and all of it is the rank's share.
  void use_own_test_set() { own_test_set_ = true; }
  /// Equal replicas: the weights of running statistics in their mean over ranks, because batches
  /// differ; they sum to the number of ranks. @param weights by worker, or of this rank alone
  void weigh_buffers(std::vector<double> weights) { buffer_weights_ = std::move(weights); }
  /// Averages the outputs for these views of a picture from now on.
  /// @pre pictures are the test set's only input, and ArrayLoss has the task
  void use_views(data::TestViews views, const model::Measures& measures);
  /// @param samples from 1 to kTestBatch
  void use_test_batch(std::size_t samples) { test_batch_ = samples; }

  /// Leaves parameters and buffers as they were.
  /// @param on_test_set false: only the consensus distance, if replicas differ
  /// @param weight weight of this rank's model in the mean, see ModelMixing::weight()
  Assessment assess(bool on_test_set, double weight);

  /// Calls `work` while the replica is what the last assessment evaluated.
  /// @pre that was on the test set, and nothing changed the replica since
  void with_result(const std::function<void()>& work);

  /// Each replica becomes the mean of all, buffers included; equal ones only in their buffers.
  /// Those that are alone stay.
  void adopt_mean(double weight);

 private:
  void assess_equal(Assessment& result);
  void assess_different(bool on_test_set, double weight, Assessment& result);
  static void abandon(Assessment& result);
  std::size_t columns() const;
  void write_columns(const model::Evaluation& e, std::span<double> columns) const;
  model::Evaluation evaluation_of(std::span<const double> columns) const;
  void form_mean(double weight);
  void exchange_with_mean();
  model::Evaluation sum_over_ranks(const model::Evaluation& own);
  std::vector<model::Evaluation> gather(const model::Evaluation& own);
  Consensus consensus();
  model::Evaluation evaluate(data::Range samples);
  model::Evaluation evaluate_batch();
  model::Evaluation evaluate_all(const model::Evaluation& own_share);
  model::Evaluation evaluate_shares();
  bool form_mean_buffers();
  data::Range share() const;
  std::size_t samples_of_assessment() const;

  comm::Communicator& comm_;
  model::Replica& replica_;
  const data::Dataset* test_set_;
  const Replicas replicas_;
  Workers* const workers_;
  const std::size_t sums_;
  std::vector<double> buffer_weights_;  // empty: 1
  bool own_test_set_ = false;
  std::size_t test_batch_ = kTestBatch;
  FlatBuffer mean_, mean_buffers_;  // of all ranks; made when first needed
  bool abandoned_ = false;          // this rank has skipped samples; after the sum, any rank
  Progress report_progress_;        // may be empty
  std::size_t evaluated_ = 0;       // samples, in this assessment
  data::Batch batch_;
  std::vector<std::size_t> indices_;
  model::AveragedViews views_{data::TestViews::plain};
  std::optional<model::ArrayLoss> loss_;  // of outputs that are averaged
  data::Array outputs_;
};

}  // namespace eqt::train
