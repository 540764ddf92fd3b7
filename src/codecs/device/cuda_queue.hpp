// SPDX-License-Identifier: Apache-2.0
// The queue of a CUDA device. In builds without EQT_CUDA there is none.

#pragma once

#include <memory>

#include "device/queue.hpp"

namespace eqt::device {

/// Devices that can be used; 0 without a driver.
int cuda_device_count() noexcept;

/// @param stream a cudaStream_t on which to work; null for one of its own
/// @throws Error{usage} if there is no such device
std::unique_ptr<Queue> make_cuda_queue(int device, void* stream = nullptr);

}  // namespace eqt::device
