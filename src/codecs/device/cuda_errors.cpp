// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_queue.hpp"

#include "core/error.hpp"

namespace eqt::device {

void fail_out_of_memory(const char* device, std::size_t bytes, std::size_t free_bytes) {
  fail(Kind::usage,
       "expected {} bytes of free memory on {}, found {}; try a smaller train.batch_size, or fewer "
       "ranks on this device",
       bytes, device, free_bytes);
}

void fail_no_pinned_memory(std::size_t bytes) {
  fail(Kind::usage,
       "expected {} bytes of host memory that can be pinned for a device, found less; try fewer "
       "ranks on this host, or EQT_MIRROR=values",
       bytes);
}

void fail_no_device(int device, int count, const char* reason) {
  fail(Kind::usage, "expected CUDA device {}, found {} devices ({}); try device=cpu", device, count,
       reason);
}

void fail_cuda(const char* call, const char* reason) {
  fail(Kind::bug, "CUDA: {} failed: {}", call, reason);
}

}  // namespace eqt::device
