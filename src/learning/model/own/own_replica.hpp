// SPDX-License-Identifier: Apache-2.0
// The Replicas that compute by themselves: with 8-bit operands (model.precision int8) and, for
// builds without LibTorch, with float32 ones. No torch.

#pragma once

#include <cstddef>
#include <memory>

#include "int8/kernels.hpp"
#include "model/own/tensors.hpp"
#include "model/process_settings.hpp"
#include "model/replica.hpp"

namespace eqt::model {

/// Parameters are float32 in the layout of the network that LibTorch runs, and start from the same
/// values but for rounding (plan.hpp).
/// @param threads  that compute; results do not depend on them
/// @throws Error{usage} for an input or options that the network cannot take, and for those that
/// are not built with 8-bit operands
std::unique_ptr<Replica> make_int8_replica(const ModelOptions& options,
                                           int8::Kernels kernels = int8::fastest_here(),
                                           int threads = own_threads());

/// Makes such a replica with float32 operands.
std::unique_ptr<Replica> make_float32_replica(const ModelOptions& options,
                                              int threads = own_threads());

/// Returns the memory of such a replica, once there was a step of a batch and an evaluation.
/// @throws Error{usage} as make_int8_replica()
NetworkMemory int8_memory(const ModelOptions& options, std::size_t batch_size);
NetworkMemory float32_memory(const ModelOptions& options, std::size_t batch_size);

/// The tensors of such a replica, and what they start with.
struct FirstValues {
  precision::TensorPlan plan;
  precision::TensorValues values;
};
/// @throws Error{usage} as make_int8_replica()
FirstValues first_values(const ModelOptions& options);

}  // namespace eqt::model
