// SPDX-License-Identifier: Apache-2.0
// The memory that a network needs to compute a gradient, measured on small batches.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "model/replica.hpp"

namespace eqt::model {

struct NetworkMemory {
  Layout layout;                     // of the parameters
  std::size_t buffer_values = 0;     // running statistics
  std::uint64_t gradient_bytes = 0;  // peak memory during a forward_backward()
  std::uint64_t evaluate_bytes = 0;  // and during an evaluate()
};

/// Measures memory without parameters, gradient and buffers. With 8-bit operands the memory is
/// planned; otherwise the network runs on batches of two sizes, and the peak memory of LibTorch's
/// allocator is extrapolated linearly in the batch size, which takes a fraction of a second.
/// @throws Error{usage} as make_replica()
NetworkMemory measure_network_memory(const ModelOptions& options, std::size_t batch_size,
                                     std::size_t test_batch_size);

}  // namespace eqt::model
