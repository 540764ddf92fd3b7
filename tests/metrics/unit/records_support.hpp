// SPDX-License-Identifier: Apache-2.0
// Records and a temporary folder for the metrics tests.

#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "metrics/records.hpp"

namespace eqt::metrics::test {

/// A folder that is removed with its object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "eqt-metrics-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline PhaseSeconds phase_seconds(double scale) {
  return {1 * scale, 2 * scale, 3 * scale, 4 * scale, 5 * scale, 6 * scale, 21 * scale};
}

inline RunRecord run_record() {
  RunRecord r;
  r.name = "a \"run\"";
  r.version = "0.1.0";
  r.model = "resnet20";
  r.dataset = "fashion-mnist";
  r.compressor = "e-elastiquant";
  r.collective = "scatter-reduce";
  r.algorithm = "allreduce";
  r.ranks = 2;
  r.parameters = 272186;
  r.steps_per_epoch = 100;
  r.total_steps = 250;
  r.images_per_step = 128;
  r.config_json = R"({"seed": 7})";
  return r;
}

inline StepRecord step_record(StepId step) {
  StepRecord r;
  r.step = step;
  r.epoch = (step + 99) / 100;
  r.loss = 2.5;
  r.learning_rate = 0.1;
  r.seconds = phase_seconds(0.25 / 21);
  r.sent_bytes = 1000;
  r.received_bytes = 1001;
  r.dense_bytes = 8000;
  r.total_sent_bytes = 1000 * r.step;
  r.total_dense_bytes = 8000 * r.step;
  return r;
}

inline EpochRecord epoch_record() {
  EpochRecord r;
  r.epoch = 1;
  r.step = 100;
  r.train_loss = 1.25;
  r.test_accuracy = 0.875;
  r.test_loss = 0.5;
  r.images_per_second = 812;
  r.seconds = phase_seconds(10);
  r.sent_bytes = 100000;
  r.total_sent_bytes = 300000;
  r.compression_ratio = 8;
  r.bits_per_value = 4.5;
  r.quantization_variance = 0.25;
  r.mean_quantization_variance = 0.0625;
  return r;
}

inline Summary summary() {
  Summary s;
  s.name = "a \"run\"";
  s.version = "0.1.0";
  s.compressor = "e-elastiquant";
  s.collective = "scatter-reduce";
  s.algorithm = "allreduce";
  s.ranks = 2;
  s.steps = 250;
  s.epochs = 3;
  s.parameters = 272186;
  s.train_loss = 0.75;
  s.test_accuracy = 0.875;
  s.best_test_accuracy = 0.9;
  s.wall_seconds = 62;
  s.images_per_second = 812;
  s.epoch_seconds = phase_seconds(1);
  s.sent_bytes = 12300000;
  s.received_bytes = 12300001;
  s.dense_bytes = 98400000;
  s.compression_ratio = 8;
  s.bits_per_value = 4.5;
  s.quantization_variance = 0.25;
  s.mean_quantization_variance = 0.0625;
  s.replicas_identical = true;
  s.parameter_hash = "0123456789abcdef";
  s.peak_rss_mib = 512;
  return s;
}

/// Of a regression; the first is the main one.
inline std::vector<MetricRecord> regression_metrics() {
  return {{.name = "mse", .title = "MSE", .higher_is_better = false, .value = 0.25},
          {.name = "r2", .title = "R2", .value = 0.5}};
}

/// Replicas of three ranks differ in an epoch or at the end of a run.
template <typename Record>
void make_replicas_differ(Record& record) {
  record.replicas = {.node_test_accuracy = {0.5, 0.75, 0.25}, .averaged = true};
  record.node_test_accuracy_mean = record.replicas.node_mean();
  record.node_test_accuracy_min = record.replicas.node_min();
  record.consensus_distance = 1.5;
  record.consensus_distance_relative = 0.125;
  record.evaluation_sent_bytes = 4096;
}

}  // namespace eqt::metrics::test
