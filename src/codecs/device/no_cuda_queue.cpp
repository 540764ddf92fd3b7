// SPDX-License-Identifier: Apache-2.0
// cuda_queue.hpp in a build without CUDA.

#include "device/cuda_queue.hpp"

namespace eqt::device {

int cuda_device_count() noexcept { return 0; }

std::unique_ptr<Queue> make_cuda_queue(int device, void* /*stream*/) {
  fail_no_device(device, 0, "this build has no kernels for devices");
}

}  // namespace eqt::device
