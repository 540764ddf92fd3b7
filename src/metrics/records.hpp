// What a run writes down: plain structs, one per record type of metrics.jsonl and summary.json.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/layout.hpp"

namespace eqt::metrics {

/// Where a step's time went [seconds].
struct RoomSeconds {
  double data = 0;     // waiting for the loader
  double compute = 0;  // forward and backward
  double encode = 0;
  double transfer = 0;  // waiting for the network, not hidden behind computing
  double decode = 0;
  double update = 0;  // optimizer
  double total = 0;

  RoomSeconds& operator+=(const RoomSeconds& other) {
    data += other.data;
    compute += other.compute;
    encode += other.encode;
    transfer += other.transfer;
    decode += other.decode;
    update += other.update;
    total += other.total;
    return *this;
  }
};

/// How the training set is divided among ranks.
struct PartitionRecord {
  std::string kind;  // of data.partition.kind; empty: no data set is read (emulated)
  std::optional<double> skew{}, alpha{};                      // only what the kind reads
  std::uint64_t leftover_samples = 0;                         // in no rank's shard
  std::vector<std::vector<std::uint64_t>> class_histogram{};  // (ranks, classes) [samples]
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
  // What one synchronization was expected to take; empty where `auto` had nothing to choose.
  std::optional<double> collective_predicted_ms;
  std::string config_json;            // the resolved config
  bool emulated = false;              // no network was run; sinks say so with every record
  std::uint64_t images_per_step = 0;  // of all ranks; 0 = unknown, and no images/s in the progress
};

struct StepRecord {
  StepId step = 0;          // completed steps, from 1
  std::uint64_t epoch = 0;  // from 1
  double loss = 0;          // mean over ranks; NaN = there is none (emulated)
  double learning_rate = 0;
  RoomSeconds seconds;               // of rank 0
  std::uint64_t sent_bytes = 0;      // of all ranks
  std::uint64_t received_bytes = 0;  // of all ranks
  std::uint64_t dense_bytes = 0;     // what fp32 would have sent, ring formula; 0 = unknown
};

/// Something that happened in a step and has no record of its own.
struct NoteRecord {
  StepId step = 0;   // completed steps; 0 = before the first
  std::string text;  // one line
};

struct EpochRecord {
  std::uint64_t epoch = 0;              // completed epochs
  StepId step = 0;                      // completed steps
  double train_loss = 0;                // mean over the epoch and ranks
  std::optional<double> test_accuracy;  // fraction; empty when not evaluated
  std::optional<double> test_loss;
  double images_per_second = 0;  // all ranks, training only
  RoomSeconds seconds;           // summed over the epoch, maximum over ranks
  std::uint64_t sent_bytes = 0;  // of all ranks
  double compression_ratio = 0;
  double bits_per_value = 0;
  std::optional<double> quantization_variance;
};

struct Summary {
  std::string name, version, compressor, collective, algorithm;
  int ranks = 1;
  StepId steps = 0;
  std::uint64_t epochs = 0;
  std::uint64_t parameters = 0;
  double train_loss = 0;
  std::optional<double> test_accuracy, best_test_accuracy;
  double wall_seconds = 0;
  double images_per_second = 0;
  RoomSeconds epoch_seconds;  // mean over epochs
  std::uint64_t sent_bytes = 0, received_bytes = 0, dense_bytes = 0;
  double compression_ratio = 0;
  double bits_per_value = 0;
  std::optional<double> quantization_variance;
  std::optional<bool> replicas_identical;
  std::string parameter_hash;  // 16 hex digits
  double peak_rss_mib = 0;     // of the largest rank
};

}  // namespace eqt::metrics
