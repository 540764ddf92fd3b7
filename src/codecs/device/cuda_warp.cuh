// SPDX-License-Identifier: Apache-2.0
// The classes of warp.hpp on a device: one lane is one thread.

#pragma once

#include "device/warp.hpp"

namespace eqt::device {

template <typename T>
struct DeviceLanes {
  T value;
  __device__ __forceinline__ T& operator[](unsigned /*lane*/) { return value; }
  __device__ __forceinline__ const T& operator[](unsigned /*lane*/) const { return value; }
};

class DeviceWarp {
 public:
  template <typename T>
  using Lanes = DeviceLanes<T>;

  template <typename F>
  __device__ __forceinline__ void each(const F& f) const {
    f(threadIdx.x % kLanes);
  }

  template <typename T>
  __device__ __forceinline__ T from_lane(const Lanes<T>& x, unsigned lane) const {
    return __shfl_sync(kAll, x.value, static_cast<int>(lane));
  }

  template <typename T>
  __device__ __forceinline__ Lanes<T> looked_up(const Lanes<T>& x,
                                                const Lanes<std::uint32_t>& at) const {
    return {__shfl_sync(kAll, x.value, static_cast<int>(at.value))};
  }

  __device__ __forceinline__ Lanes<std::uint32_t> swap_halves(const Lanes<std::uint32_t>& x) const {
    return {__shfl_xor_sync(kAll, x.value, 16)};
  }

  __device__ __forceinline__ std::uint32_t ballot(const Lanes<bool>& x) const {
    return __ballot_sync(kAll, x.value);
  }

  __device__ __forceinline__ std::uint32_t largest(const Lanes<std::uint32_t>& x) const {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAll, x.value);
#else
    std::uint32_t most = x.value;
    for (int w = 16; w > 0; w /= 2) most = max(most, __shfl_xor_sync(kAll, most, w));
    return most;
#endif
  }

  __device__ __forceinline__ std::uint32_t united(const Lanes<std::uint32_t>& x) const {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(kAll, x.value);
#else
    std::uint32_t bits = x.value;
    for (int w = 16; w > 0; w /= 2) bits |= __shfl_xor_sync(kAll, bits, w);
    return bits;
#endif
  }

  template <unsigned kFirst>
  __device__ __forceinline__ double folded(Lanes<double> x) const {
#pragma unroll
    for (unsigned w = kFirst; w > 0; w /= 2) x.value += __shfl_down_sync(kAll, x.value, w);
    return __shfl_sync(kAll, x.value, 0);
  }

 private:
  static constexpr unsigned kAll = 0xFFFFFFFFu;
};

template <typename State>
class DeviceGroup {
 public:
  __device__ DeviceGroup(unsigned warps, GroupMemory& memory) : warps_(warps), memory_(memory) {}

  __device__ __forceinline__ unsigned warps() const { return warps_; }
  __device__ __forceinline__ GroupMemory& memory() { return memory_; }

  template <typename F>
  __device__ __forceinline__ void each(const F& f) {
    f(DeviceWarp(), warps_ > 1 ? threadIdx.x / kLanes : 0, state_);
  }

  __device__ __forceinline__ void wait() const {
    if (warps_ > 1) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }

  template <typename F>
  __device__ __forceinline__ void in_order(const F& f) {
    const unsigned own = warps_ > 1 ? threadIdx.x / kLanes : 0;
    for (unsigned k = 0; k < warps_; ++k) {
      if (k == own) f(DeviceWarp(), own, state_);
      wait();
    }
  }

 private:
  unsigned warps_;
  GroupMemory& memory_;
  State state_;
};

}  // namespace eqt::device
