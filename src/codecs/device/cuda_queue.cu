// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_queue.hpp"

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "device/cuda_errors.hpp"
#include "device/cuda_warp.cuh"
#include "device/launch_shape.hpp"

namespace eqt::device {
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
