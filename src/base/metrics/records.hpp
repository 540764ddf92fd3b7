// SPDX-License-Identifier: Apache-2.0
// The records of a run: plain structs, one per record type of metrics.jsonl and summary.json.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/layout.hpp"
#include "metrics/figures.hpp"

namespace eqt::metrics {

/// A figure by which the task of a run judges the network, on the test set.
struct MetricRecord {
  std::string name;   // behind "test_": "accuracy", "mse"
  std::string title;  // behind "test ", for people: "accuracy", "MSE"
  bool higher_is_better = true;
  bool fraction = false;                                    // from 0 to 1, shown as a percentage
  double value = std::numeric_limits<double>::quiet_NaN();  // NaN: not evaluated, or not defined

  bool is_better_than(double other) const {
    return higher_is_better ? value > other : value < other;
  }
};

/// The record says how the training set is divided among ranks.
struct PartitionRecord {
  std::string kind;  // of data.partition.kind; empty: no data set is read (emulated)
  std::optional<double> skew{}, alpha{};                      // only those that the kind uses
  std::optional<bool> reshuffle{};                            // likewise: iid
  std::uint64_t leftover_samples = 0;                         // in no rank's shard
  std::optional<std::string> epoch{}, test{};                 // likewise: local
  std::vector<std::string> classes{};                         // local: of all ranks
  std::vector<std::uint64_t> sizes{};                         // local: [samples] by rank
  std::vector<double> rank_skew{};                            // local: by rank, in [0, 1)
  std::vector<std::vector<std::uint64_t>> class_histogram{};  // (ranks, classes), first epoch;
                                                              // empty: samples have no class
};

/// A plugin that the run was started with.
struct PluginRecord {
  std::string name;        // of its compressor
  std::string file;        // absolute path
  std::uint64_t hash = 0;  // XXH3 of the file's bytes
};

/// A network with 8-bit operands.
struct Int8Record {
  std::string kernels;            // family of instructions of the convolutions
  std::uint64_t arena_bytes = 0;  // of a rank: 8-bit values of a training step, and their scales
  std::uint64_t saved_bytes = 0;  // of these, what is kept from the forward to the backward pass
};

/// Each tensor's compression is chosen from this menu during the run.
struct GradesRecord {
  std::vector<std::string> menu;     // grades, by index
  std::vector<std::string> tensors;  // that have one, in the network's order
  std::uint64_t start = 0;           // the grade of all of them before the first decision
};

struct RunRecord {
  std::string name;
  std::string version;  // of this program, with git revision
  std::string torch;    // LibTorch's version and BLAS
  std::string mpi;      // MPI library
  std::string host;
  std::string simd;  // instruction set that the kernels use
  int ranks = 1;
  int threads_per_rank = 1;
  std::uint64_t parameters = 0;
  std::uint64_t train_samples = 0;
  std::uint64_t test_samples = 0;
  PartitionRecord partition;
  StepId steps_per_epoch = 0;
  StepId total_steps = 0;
  std::string model, dataset, compressor, collective, algorithm;
  std::string task;                   // its kind
  std::vector<MetricRecord> metrics;  // of the task, the main one first, without values
  std::vector<PluginRecord> plugins;
  std::string config_json;  // the resolved config
  bool emulated = false;    // no network was computed; sinks mark every record
  bool simulated = false;   // one process computed for all ranks; sinks mark every record
  std::uint64_t memory_estimate_bytes = 0;  // of a rank at its peak, estimated before the start
  std::uint64_t images_per_step = 0;  // of all ranks; 0 = unknown, and no samples/s in the progress
  std::optional<Int8Record> int8{};   // none: operands of other types
  std::optional<GradesRecord> grades{};  // none: compression stays as it is
  std::string emulated_link{};           // how long messages were held; "" = they were not
  std::string laboratory{};  // the shaped links of scripts/netlab.sh; "" = outside of it
};

/// One start of a run: where it continues, and with whom. It is a line of starts.jsonl.
struct StartRecord {
  StepId step = 0;   // completed ones with which it begins
  std::string from;  // "the beginning", "a checkpoint" or "a state in memory"
  int ranks = 1;
  std::vector<std::string> hosts = {};  // names, in the order of their lowest ranks
  double time = 0;                      // of the start, since 1970 [seconds]
};

struct StepRecord {
  StepId step = 0;          // completed steps, from 1
  std::uint64_t epoch = 0;  // from 1
  double loss = 0;          // mean over ranks; NaN = there is none (emulated)
  double learning_rate = 0;
  PhaseSeconds seconds;              // of rank 0
  std::uint64_t sent_bytes = 0;      // of all ranks
  std::uint64_t received_bytes = 0;  // of all ranks
  std::uint64_t dense_bytes = 0;     // what fp32 would have sent, ring formula; 0 = unknown
  // Since the first step of the run, including earlier starts; not part of the JSON.
  std::uint64_t total_sent_bytes = 0, total_dense_bytes = 0;
  std::uint64_t samples = 0;  // of rank 0, if ranks have batches of their own; not part of the JSON
};

/// A text about a step.
struct NoteRecord {
  StepId step = 0;                     // completed steps; 0 = before the first
  std::string text;                    // one line
  std::optional<StepId> back_to = {};  // the run went back to this step: later records are void
};

/// A controller decided this by measured times. It is a line of decisions.jsonl.
struct DecisionRecord {
  StepId step = 0;             // completed steps; of kind "quorum" the number of the round
  std::string kind;            // "batches": samples per batch, by rank; "grades": a fingerprint of
                               // model and menu, then grades by tensor; "quorum": steps that count
                               // and own steps after which ranks applied the round, by rank
  std::vector<double> values;  // what was decided
  std::string why;             // one sentence
};

/// The noise of a step's gradients and what compression adds to it.
struct NoiseRecord {
  StepId step = 0;  // completed steps
  // This is the noise that compression adds to the mean of all compressed values, in units of the
  // noise that the mean over the batch has. It is not finite while none is seen.
  double noise_share = 0;
  double noise_scale = 0;  // batch at which noise and gradient are equally large [samples]
  struct Slice {
    std::string name;           // of the tensor
    double gradient_noise = 0;  // variance of the mean over the batch
    std::uint64_t grade = 0;    // index in compressor.menu, from now on
  };
  std::vector<Slice> slices{};
};

/// When the gradient of a step is ready: means over some steps of rank 0 [seconds].
struct ProfileRecord {
  StepId step = 0;          // completed steps after the last one of them
  std::uint64_t steps = 0;  // their number
  double forward = 0;       // until the first slice is ready
  double backward = 0;      // from then on
  struct Slice {
    std::string name;  // of the tensor
    double ready = 0;  // since the start of the forward pass of the step's last batch
  };
  std::vector<Slice> slices{};  // the last one first, as they are sent
};

struct TimelineSpan {
  Activity activity = Activity::compute;
  double begin = 0, end = 0;  // [seconds] since rank 0's start
};

/// The record says what a rank did in a step. It is a line of timeline.jsonl.
struct TimelineRecord {
  StepId step = 0;  // completed steps after it
  Rank rank = 0;
  std::vector<TimelineSpan> spans;
};

/// The progress of an evaluation, for the console.
struct EvaluationProgress {
  std::uint64_t epoch = 0;              // from 1
  std::uint64_t done = 0, samples = 0;  // of rank 0, which evaluates its share or all of them
};

/// A histogram of values.
struct HistogramRecord {
  StepId step = 0;   // completed steps
  std::string name;  // "gradient/conv1.weight"
  double least = 0, most = 0;
  double sum = 0, sum_squares = 0;
  // Bin i has the values between limit i - 1 (the first: `least`) and limit i; limits are
  // ascending.
  std::vector<double> upper_limits, counts;
};

struct ImageRecord {
  StepId step = 0;                          // completed steps; 0 = before the first
  std::string name;                         // "samples"
  int width = 0, height = 0, channels = 0;  // [pixels]; 1 (grey) or 3 (red, green, blue) channels
  std::vector<std::uint8_t> pixels;         // (height, width, channels)
};

/// Replicas that differ from rank to rank; all empty if they are equal.
struct ReplicasRecord {
  // Each rank's own model and buffers have this accuracy on the whole test set [fraction].
  std::vector<double> node_test_accuracy;
  // They have this value of the task's main metric, if that is no accuracy.
  std::vector<double> node_test_metric{};
  bool averaged = false;  // test accuracy and loss are the mean model's

  std::optional<double> node_mean() const {
    if (node_test_accuracy.empty()) return {};
    return std::reduce(node_test_accuracy.begin(), node_test_accuracy.end()) /
           static_cast<double>(node_test_accuracy.size());
  }
  std::optional<double> node_min() const {
    if (node_test_accuracy.empty()) return {};
    return *std::min_element(node_test_accuracy.begin(), node_test_accuracy.end());
  }
  std::optional<double> node_max() const {
    if (node_test_accuracy.empty()) return {};
    return *std::max_element(node_test_accuracy.begin(), node_test_accuracy.end());
  }
};

/// Bytes that one rank sent to another in a run.
struct EdgeRecord {
  Rank from = 0, to = 0;
  std::uint64_t bytes = 0;  // messages with their frames

  bool operator==(const EdgeRecord&) const = default;
};

/// The record says how ranks with batches of their own shared an epoch. All fields are by rank.
struct BatchesRecord {
  std::vector<std::uint64_t> batch_sizes;  // in the last step [samples]
  std::vector<double> samples_per_second;  // while the rank computed
  std::vector<double> idle_share;          // of the steps' time: waiting for messages of others

  bool empty() const { return batch_sizes.empty(); }
};

struct EpochRecord : Figures {
  std::uint64_t epoch = 0;              // completed epochs
  StepId step = 0;                      // completed steps
  std::vector<MetricRecord> metrics{};  // of the task, the main one first; test_accuracy among them
  PhaseSeconds seconds;                 // summed over the epoch, maximum over ranks
  std::vector<PhaseSeconds> rank_seconds{};  // summed over the epoch, by rank; empty: not recorded
  std::uint64_t sent_bytes = 0;              // of all ranks
  std::uint64_t total_sent_bytes = 0;      // since the first step of the run; not part of the JSON
  std::optional<bool> replicas_identical;  // empty: they need not be
  ReplicasRecord replicas;
  BatchesRecord batches{};  // empty: all ranks have the same
};

struct Summary : Figures {
  std::string name, version, compressor, collective, algorithm;
  int ranks = 1;
  StepId steps = 0;
  std::uint64_t epochs = 0;
  std::uint64_t parameters = 0;
  std::vector<MetricRecord> metrics{};  // of the last evaluation, as in EpochRecord
  std::optional<double> best_metric{};  // of the first of them, over the evaluations
  PhaseSeconds epoch_seconds;           // mean over epochs
  std::uint64_t sent_bytes = 0, received_bytes = 0, dense_bytes = 0;
  // Bytes that all ranks handed to MPI besides sent_bytes since they were started: initial
  // parameters, evaluation, health checks, records, agreement on errors.
  std::uint64_t other_sent_bytes = 0;
  // The part of both that MPI's own collectives sent, which cannot be counted: by formula.
  std::uint64_t estimated_sent_bytes = 0;
  std::optional<bool> replicas_identical;
  std::string parameter_hash;  // 16 hex digits
  ReplicasRecord replicas;     // at the end
  // Edges with traffic, by sender, then receiver. Their sum is sent_bytes without the traffic of
  // adapted levels. Empty if ranks do not exchange with neighbours.
  std::vector<EdgeRecord> sent_bytes_by_edge;

  /// Returns the bytes that each rank sent to all its neighbours; empty without edges.
  std::vector<std::uint64_t> sent_bytes_by_node() const {
    std::vector<std::uint64_t> sums;
    if (!sent_bytes_by_edge.empty()) sums.resize(static_cast<std::size_t>(ranks));
    for (const EdgeRecord& e : sent_bytes_by_edge)
      sums.at(static_cast<std::size_t>(e.from)) += e.bytes;
    return sums;
  }
};

}  // namespace eqt::metrics
