// SPDX-License-Identifier: Apache-2.0
// The verb `plan`: how long steps and epochs take on a cluster that is not here, by scheme; and
// which scheme one that is here should use, in one sentence.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.hpp"

namespace eqt::planner {

struct ClusterFile;
class CodecSpeeds;

struct PlanCommand {
  std::string config_path, config_text;
  std::vector<std::string> sets;  // "key=JSON", in order
  std::string cluster_path;
  std::string calibration_path;  // "" = compressors are measured now
  // Not a plan: writes the calibration `calibrate` from what measured; "" = plan.
  std::string calibrate;
  std::vector<std::string> from;  // run folders, and files of doctor and bench
  // An empty list stands for powers of two, the cluster's number and one board more, if they fit
  // the config.
  std::vector<int> ranks;
  std::vector<std::string> vary;  // "key=a,b,c"; empty = compressors
  double steps_at_1 = 0;          // of an unlimited batch, to a target; 0 = not given
  double noise_scale = 0;         // [samples]; 0 = not given
  double to_accuracy = 0;         // 0 = not given; else batch, local steps and rate are chosen
  std::string probe;              // run folder; with to_accuracy
  bool json = false;
  std::string plot;  // "" = none; *.svg or *.png
  std::string page;  // "" = none; an HTML file
};

/// Prints the plan: a sentence, tables and what was guessed, or one JSON document; or the batch,
/// local steps and rate that are soonest at an accuracy; or makes a calibration. Needs no MPI and
/// no data.
/// @throws Error{usage} for a config, cluster or calibration that is none, or a scheme that has no
/// plan; Error{data} for a run folder without steps; Error{output}
void run_plan(const PlanCommand& command);

/// A TunedRecipe is what a job chose for itself.
struct TunedRecipe {
  std::string sentence;
  std::vector<std::string> sets;  // "key=JSON": what makes it of the config
  std::uint64_t batch_size = 0, local_steps = 1, steps = 0;
  double learning_rate = 0;
};

/// @throws Error{usage} for a config whose batch and local steps cannot be chosen
void require_tunable(const config::RunConfig& config);

/// The statistics of batch normalization are not trusted to smaller batches of a rank.
inline constexpr std::size_t kLeastNormalizedBatch = 8;

/// Forward and backward pass of a batch.
struct MeasuredBatch {
  std::uint64_t batch_size = 0;  // of a rank
  double step_seconds = 0;       // median
};

/// @throws Error{data} for a folder without a run whose computing times are known
double step_seconds_of(const std::string& folder);

/// Chooses as run_plan() does with a probe, of the job itself.
/// @param cluster  its hosts; a board without step_seconds has those of the probe
/// @param smaller  another batch on the same boards; none: times are in proportion to the batch
/// @throws Error{usage}, Error{data} as run_plan()
TunedRecipe tune_job(const std::string& config_text, const std::string& origin,
                     const ClusterFile& cluster, const std::string& probe,
                     const std::optional<MeasuredBatch>& smaller, double accuracy);

/// Prints the JSON Schema of cluster files.
void print_cluster_schema();

struct Recommendation {
  std::string compressor, collective;
  double step_seconds = 0, float32_step_seconds = 0;
  std::string sentence;
};

/// Recommends for ResNet-18 on CIFAR-sized images in batches of 64: the one of float32, bf16 and
/// 4-bit E-ElastiQuant that loses least of those that are at most 2 % slower than the fastest. Says
/// how fast that is beside one board alone and from which link on more boards pay; first, where one
/// board alone is the fastest.
/// @pre several boards
Recommendation recommend(const ClusterFile& cluster, CodecSpeeds& codecs);

}  // namespace eqt::planner
