// SPDX-License-Identifier: Apache-2.0
// The Replica that computes with 8-bit operands (model.precision int8). No torch.

#pragma once

#include <cstddef>
#include <memory>

#include "int8/kernels.hpp"
#include "model/replica.hpp"

namespace eqt::model {

/// Parameters are float32 in the layout of the network that LibTorch runs; their initial values are
/// `initial`'s, which is not kept.
/// @param initial  the network that LibTorch runs, of the same options
/// @throws Error{usage} for options that are not built with 8-bit operands
std::unique_ptr<Replica> make_int8_replica(const ModelOptions& options, Replica& initial,
                                           int8::Kernels kernels = int8::fastest_here());

/// What make_int8_replica() refuses.
/// @throws Error{usage}
void check_int8(const ModelOptions& options);

/// Memory of such a replica besides parameters, gradient and buffers.
struct Int8Memory {
  std::size_t bytes = 0;        // once there was a step of a batch and an evaluation
  std::size_t arena_bytes = 0;  // of these, what a step keeps for the backward pass
};
Int8Memory int8_memory(const ModelOptions& options, std::size_t batch_size);

}  // namespace eqt::model
