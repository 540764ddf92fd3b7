// SPDX-License-Identifier: Apache-2.0
// Which scheme a cluster that is here should use, in one sentence.

#pragma once

#include <string>

#include "planner/cluster_file.hpp"
#include "planner/machine_costs.hpp"

namespace eqt::planner {

struct Recommendation {
  std::string compressor, collective;
  double step_seconds = 0, float32_step_seconds = 0;
  std::string sentence;
};

/// Recommends for ResNet-18 on CIFAR-sized images in batches of 64: the one of float32, bf16 and
/// 4-bit E-ElastiQuant that loses least of those that are at most 2 % slower than the fastest. Says
/// how fast that is beside one board alone.
/// @pre several boards
Recommendation recommend(const ClusterFile& cluster, CodecSpeeds& codecs);

}  // namespace eqt::planner
