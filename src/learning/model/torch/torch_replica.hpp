// SPDX-License-Identifier: Apache-2.0
// The Replica of any Network. Private to this room.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/replica.hpp"
#include "model/torch/network.hpp"

namespace eqt::model {

/// A ReplicaInput says what the network is given, and for what.
struct ReplicaInput {
  std::vector<data::ArraySpec> inputs;    // of the batches
  std::optional<data::ArraySpec> target;  // likewise
  Frame frame = {};                       // around each picture
  TaskOptions task = {};
  int outputs = 0;
  std::vector<std::string> freeze = {};  // patterns of parameters that are not trained
  std::uint64_t seed = 1;                // of random numbers during training
  Rank rank = 0;                         // ranks draw independently
  Precision precision = Precision::fp32;
  /// Operations of LibTorch compute in bf16 where its autocast says so, for networks whose
  /// convolutions are not ConvolutionImpl.
  bool casts = false;
  Placement placement = {};
};

/// Moves the network's parameters, gradients and running statistics into flat buffers.
std::unique_ptr<Replica> make_torch_replica(std::shared_ptr<Network> network,
                                            const ReplicaInput& input);

}  // namespace eqt::model
