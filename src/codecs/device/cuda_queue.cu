// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_queue.hpp"

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "device/launch_shape.hpp"
#include "device/warp.hpp"

namespace eqt::device {

// The classes of warp.hpp on a device: one lane is one thread.

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

namespace {

constexpr unsigned kBlockWarps = 8;  // of kernels whose warps work by themselves

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) fail_cuda(call, cudaGetErrorString(error));
}

template <typename Kernel, typename OneJob>
__global__ void __launch_bounds__(kBlockWarps* kLanes)
    run_warps(const __grid_constant__ OneJob job, std::size_t count) {
  const std::size_t k = std::size_t{blockIdx.x} * kBlockWarps + threadIdx.x / kLanes;
  if (k < count) Kernel::run(DeviceWarp(), job, k);
}

// Groups of one warp share a thread block; larger ones are one.
template <typename Kernel, typename OneJob>
__global__ void __launch_bounds__(kMaxGroup* kLanes, 2)
    run_groups(const __grid_constant__ OneJob job, std::size_t count, unsigned warps) {
  __shared__ GroupMemory memory[kBlockWarps];
  const bool is_single = warps == 1;
  const unsigned own = is_single ? threadIdx.x / kLanes : 0;
  const std::size_t k = is_single ? std::size_t{blockIdx.x} * kBlockWarps + own : blockIdx.x;
  if (k >= count) return;
  DeviceGroup<typename Kernel::template State<DeviceWarp>> group(warps, memory[own]);
  Kernel::template run<DeviceWarp>(group, job, k);
}

struct CudaLaunch {
  template <typename Kernel, typename OneJob>
  void warps(Kernel /*kernel*/, const OneJob& job, std::size_t count) {
    if (count == 0) return;
    const auto blocks = static_cast<unsigned>(divided_up(count, kBlockWarps));
    run_warps<Kernel><<<blocks, kBlockWarps * kLanes, 0, stream>>>(job, count);
    check(cudaGetLastError(), "a kernel's launch");
  }

  template <typename Kernel, typename OneJob>
  void groups(Kernel /*kernel*/, const OneJob& job, std::size_t count, unsigned warps) {
    if (count == 0) return;
    const auto blocks = static_cast<unsigned>(warps == 1 ? divided_up(count, kBlockWarps) : count);
    const unsigned threads = (warps == 1 ? kBlockWarps : warps) * kLanes;
    run_groups<Kernel><<<blocks, threads, 0, stream>>>(job, count, warps);
    check(cudaGetLastError(), "a kernel's launch");
  }

  cudaStream_t stream;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(int device, cudaStream_t stream) : device_(device), stream_(stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }

  void record() override {
    check(cudaSetDevice(device_), "cudaSetDevice");
    check(cudaEventRecord(event_, stream_), "cudaEventRecord");
  }
  bool passed() const override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check(state, "cudaEventQuery");
    return true;
  }

 private:
  const int device_;
  const cudaStream_t stream_;
  cudaEvent_t event_ = nullptr;
};

/// A thread's current device may be another one, so every call sets it.
class CudaQueue final : public Queue {
 public:
  CudaQueue(int device, cudaStream_t stream) : device_(device), stream_(stream) {
    cudaDeviceProp properties;
    use_device();
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    name_ = properties.name;
    if (stream_ != nullptr) return;
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    owns_stream_ = true;
  }
  ~CudaQueue() override {
    if (owns_stream_) cudaStreamDestroy(stream_);
  }

  std::string device_name() const override { return name_; }

  void* allocate(std::size_t bytes) override {
    use_device();
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
      std::size_t free = 0, total = 0;
      static_cast<void>(cudaGetLastError());
      check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
      fail_out_of_memory(name_.c_str(), bytes, free);
    }
    check(error, "cudaMalloc");
    return memory;
  }
  void release(void* memory) noexcept override { cudaFree(memory); }
  void* allocate_pinned(std::size_t bytes) override {
    use_device();
    void* memory = nullptr;
    const cudaError_t error = cudaMallocHost(&memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) fail_no_pinned_memory(bytes);
    check(error, "cudaMallocHost");
    return memory;
  }
  void release_pinned(void* memory) noexcept override { cudaFreeHost(memory); }

  void upload(void* to, const void* from, std::size_t bytes) override {
    use_device();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    use_device();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  }
  void clear(void* memory, std::size_t bytes) override {
    use_device();
    check(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync");
  }
  void run(const Job& job) override {
    use_device();
    CudaLaunch launch{stream_};
    std::visit(Launching<CudaLaunch>(launch), job);
  }
  void wait() override { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  std::unique_ptr<Event> make_event() override {
    use_device();
    return std::make_unique<CudaEvent>(device_, stream_);
  }

 private:
  void use_device() const { check(cudaSetDevice(device_), "cudaSetDevice"); }

  const int device_;
  std::string name_;
  cudaStream_t stream_;
  bool owns_stream_ = false;
};

}  // namespace

int cuda_device_count() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<Queue> make_cuda_queue(int device, void* stream) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || device < 0 || device >= count) {
    fail_no_device(device, count, cudaGetErrorString(error));
  }
  return std::make_unique<CudaQueue>(device, static_cast<cudaStream_t>(stream));
}

}  // namespace eqt::device
