// SPDX-License-Identifier: Apache-2.0
// The costs and results of a run, summed over steps and ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "core/saved_state.hpp"
#include "metrics/records.hpp"
#include "metrics/sink.hpp"
#include "sync/synchronizer.hpp"
#include "train/evaluator.hpp"

namespace eqt::train {

/// The metric that has members of its own in records.
inline constexpr std::string_view kAccuracy = "accuracy";

/// Returns the largest resident memory of this process until now. [MiB]
double peak_rss_mib();

struct RunStatisticsOptions {
  double batch_size = 64;      // samples per rank and step, in the mean over ranks
  std::size_t values = 0;      // of the gradient
  int workers = 0;             // simulated by this process; 0: none
  bool synchronizes = true;    // ranks exchange the gradient in every step that skips nothing
  bool asynchronous = false;   // ranks take different numbers of steps
  bool by_rank = false;        // epoch records have the seconds of every rank
  bool own_batches = false;    // ranks have batches of their own: StepRecord::samples is set
  model::Measures measures{};  // how good the network is
};

/// Each rank has one. Collective calls sum over ranks, and rank 0's sink gets the records.
class RunStatistics {
 public:
  RunStatistics(comm::Communicator& comm, metrics::Sink& sink, const RunStatisticsOptions& options);

  /// Adds this rank's step; `record` is completed with `result`. With workers its loss is the sum
  /// of theirs. Collective in some steps, the same on all ranks; asynchronous ranks never
  /// communicate here, and step records are those of rank 0.
  /// @param may_send false, on all ranks: not now
  void note_step(metrics::StepRecord record, const sync::SyncResult& result, bool may_send = true);

  /// Adds a rank's costs between its last step of an epoch and the epoch's end.
  void note_wait(const sync::SyncResult& result, double seconds);

  /// Adds `count` values that all ranks averaged as float32 outside a step, by the ring formula.
  void note_dense_mean(std::size_t count);

  /// Adds `rounds` synchronizations outside a step with this rank's `traffic`: only their bytes
  /// count. Returns the bytes of all ranks. Collective.
  std::uint64_t note_rounds(std::uint64_t rounds, const Traffic& traffic);

  /// Closes an epoch that ended with step `done`; without an assessment nothing was evaluated.
  /// Collective.
  void close_epoch(std::uint64_t epoch, StepId done, const Assessment& assessment);

  /// Returns true if steps were noted since the last closed epoch. @pre no record is pending
  bool has_open_epoch() const { return epoch_.sums.mean_steps > 0; }

  /// Takes the metrics of the model behind the last step, of which checkpoints keep the main one.
  void note_metrics(const model::Evaluation& evaluation) {
    metrics_ = options_.measures.of(&evaluation);
  }

  /// The summary of the closed epochs: all but names, parameters and hash. Collective.
  metrics::Summary summary();

  /// Visits all state except the flush interval. Pending records are first written or, if the visit
  /// restores, dropped. Collective.
  void visit_state(StateVisitor& visitor);

 private:
  /// The steps of ranks add up to these.
  struct Sums {
    double steps = 0;
    double mean_steps = 0;  // of a rank
    double loss = 0;
    double sent_bytes = 0, received_bytes = 0;
    double dense_bytes = 0;
    double encoded_bytes = 0, encoded_values = 0;

    void operator+=(const Sums& other);
    void add(const Traffic& traffic);
  };
  struct Lists;

  /// The mean of a figure over the steps that measured it.
  struct Mean {
    double sum = 0, count = 0;

    void add(const std::optional<double>& value);
    void operator+=(const Mean& other);
    std::optional<double> value() const;
    void visit_state(StateVisitor& visitor, std::string_view name, Across across);
  };

  struct LocalStep {
    metrics::StepRecord record;
    Sums sums;
    double rounds;  // the same on all ranks
  };
  /// Sums over steps.
  struct Totals {
    Sums sums;                      // over all ranks
    metrics::PhaseSeconds seconds;  // of this rank
    Mean error;                     // of this rank's messages
    Mean error_of_means;            // of applied means, the same on all ranks

    void operator+=(const Totals& other);
    void visit_state(StateVisitor& visitor);
  };

  int ranks() const;
  void note_own_step(metrics::StepRecord record);
  void add_up_ranks();
  void flush();
  void visit_results(StateVisitor& visitor);
  void visit_nodes(StateVisitor& visitor, std::string_view name, std::vector<double>& values);
  void visit_metrics(StateVisitor& visitor);
  void flush_steps();
  void note_errors_of_means(std::span<const double> sums);
  double ring_bytes(double values) const;
  /// Returns what all ranks have sent since the first step of the run.
  double sent_bytes() const { return run_.sums.sent_bytes + epoch_.sums.sent_bytes; }
  double dense_bytes_of_step() const;
  void note_assessment(const Assessment& assessment, metrics::EpochRecord& record);
  void note_nodes(const std::vector<model::Evaluation>& nodes, metrics::EpochRecord& record);
  void note_model(const model::Evaluation& evaluation);
  void choose_flush_interval(double step_seconds);
  void count_other_bytes(metrics::Summary& summary);
  metrics::PhaseSeconds slowest(const metrics::PhaseSeconds& seconds);
  std::vector<metrics::PhaseSeconds> of_ranks(const metrics::PhaseSeconds& seconds);
  metrics::BatchesRecord batches_of_ranks();
  void fill(metrics::Figures& figures, const Totals& totals, double seconds);

  comm::Communicator& comm_;
  metrics::Sink& sink_;
  const RunStatisticsOptions options_;
  std::vector<LocalStep> unflushed_;
  std::vector<sync::MeanSketch> sketches_;  // of unflushed steps that measured
  std::vector<double> reduction_;
  StepId flush_every_ = 1;
  Totals epoch_, run_;
  double sent_before_start_ = 0;  // by all ranks before the checkpoint, from which the run
                                  // continues
  double own_rounds_ = 0;  // asynchronous: exchanges of this rank in the epoch, not yet added
  Sums own_;  // asynchronous: this rank's steps, losses and bytes of the epoch, not yet added
  metrics::PhaseSeconds slowest_;  // summed over epochs
  // With own_batches these are this rank's samples, in the last step and in the epoch.
  std::uint64_t batch_ = 0;
  double epoch_samples_ = 0;
  std::uint64_t epochs_ = 0;
  metrics::Figures last_;  // of the last epoch and evaluation; evaluation_sent_bytes of the run
  std::vector<metrics::MetricRecord> metrics_;  // of the last evaluation
  std::optional<double> best_metric_;           // the main one's
  metrics::ReplicasRecord replicas_;            // the latest
};

}  // namespace eqt::train
