// SPDX-License-Identifier: Apache-2.0
// The queue of a CUDA device, which builds without EQT_CUDA do not have, and the errors that the
// CUDA runtime reports, for sources that only nvcc compiles.

#pragma once

#include <cstddef>
#include <memory>

#include "device/queue.hpp"

namespace eqt::device {

/// Devices that can be used; 0 without a driver.
int cuda_device_count() noexcept;

/// @param stream a cudaStream_t on which to work; null for one of its own
/// @throws Error{usage} if there is no such device
std::unique_ptr<Queue> make_cuda_queue(int device, void* stream = nullptr);

/// @throws Error{usage}: "expected ... bytes of device memory"
[[noreturn]] void fail_out_of_memory(const char* device, std::size_t bytes, std::size_t free_bytes);
/// @throws Error{usage}: "expected ... bytes of memory that stays in place"
[[noreturn]] void fail_no_pinned_memory(std::size_t bytes);
/// @throws Error{usage} for a device that cannot be used
[[noreturn]] void fail_no_device(int device, int count, const char* reason);
/// @throws Error{bug} for every other error
[[noreturn]] void fail_cuda(const char* call, const char* reason);

}  // namespace eqt::device
