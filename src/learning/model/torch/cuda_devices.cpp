// SPDX-License-Identifier: Apache-2.0
// LibTorch's devices, by interfaces that every LibTorch has: no header of CUDA is needed.

#include <ATen/Functions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "model/compute_device.hpp"
#include "model/torch/torch_errors.hpp"

namespace eqt::model {

CudaDevices cuda_devices() {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return {.obstacle = kBuiltWithoutCuda};
  const int count = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount();
  if (count > 0) return {.count = count};
  try {
    // The first use says why.
    at::empty({1}, at::TensorOptions().device(at::kCUDA));
  } catch (const c10::Error& error) {
    return {.obstacle = obstacle_of(error.what_without_backtrace())};
  }
  return {.obstacle = "LibTorch counts no device, but uses one; check CUDA_VISIBLE_DEVICES"};
}

}  // namespace eqt::model
