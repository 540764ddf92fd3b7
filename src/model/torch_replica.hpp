// SPDX-License-Identifier: Apache-2.0
// The Replica of any Network. Private to this room.

#pragma once

#include <memory>

#include "model/network.hpp"
#include "model/replica.hpp"

namespace eqt::model {

/// The input of the network.
struct ReplicaInput {
  data::ImageShape images;  // of the batches
  Frame frame;              // around each of them
  int classes = 0;
  std::uint64_t seed = 1;  // of random numbers during training
  Rank rank = 0;           // ranks draw independently
};

/// Moves the network's parameters, gradients and running statistics into flat buffers.
std::unique_ptr<Replica> make_torch_replica(std::shared_ptr<Network> network,
                                            const ReplicaInput& input);

}  // namespace eqt::model
