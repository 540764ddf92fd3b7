// SPDX-License-Identifier: Apache-2.0
// A config and a cluster become what its ranks do in a step.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/cost.hpp"
#include "config/run_config.hpp"
#include "core/layout.hpp"
#include "data/catalogue.hpp"
#include "forecast/cluster.hpp"
#include "model/emulated_replica.hpp"
#include "planner/cluster_file.hpp"
#include "planner/machine_costs.hpp"

namespace eqt::planner {

/// A network, as far as a plan needs it.
struct PlannedNetwork {
  Layout layout;
  std::vector<double> multiply_adds;  // of a sample's forward pass, by slice
  // The part of forward and backward pass after which each slice is ready, and that of the forward
  // pass: by multiply-adds, unless they were measured.
  std::vector<double> ready;
  double forward = model::kForwardShare;
};

/// The network of the config for such data; without facts and for emulated boards as it was
/// published.
/// @throws Error{usage}, Error{data} as setup::network_for()
PlannedNetwork network_of(const config::RunConfig& config,
                          const std::optional<data::DatasetFacts>& facts);

/// @throws Error{usage} for a number of local steps that changes along the run
void require_counted_steps(const config::RunConfig& config);

struct PlannedStep {
  forecast::StepWork work;
  forecast::Cluster cluster;       // with all times set
  std::string collective;          // or the algorithm, if it gossips
  double message_bytes = 0;        // of one synchronization, by a rank, by formula
  std::vector<double> batches;     // by kind of boards: samples of a rank in a step
  bool guessed_computing = false;  // from flops
  double forward = 0;              // the part of computing that the forward pass takes
  // Says what a value meets on its way into the mean: relative variance of one encoding of normal
  // values, and how often it is encoded. None: not a mean of gradients in each step, or errors that
  // are no noise, because they are biased or sent later.
  struct Quantisation {
    double variance = 0;
    int times = 1;
  };
  std::optional<Quantisation> quantisation{};
};

/// @throws Error{usage} for what has no step that all ranks take (ad-psgd, quorum, LAQ), a
/// collective that does not take the compressor, and a topology that does not exist
PlannedStep plan_step(const config::RunConfig& config, const PlannedNetwork& network,
                      const ClusterFile& cluster, CodecSpeeds& codecs, const MachineCosts& machine);

}  // namespace eqt::planner
