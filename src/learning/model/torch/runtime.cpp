// SPDX-License-Identifier: Apache-2.0
// LibTorch is told these before it computes, or is asked what it has on this machine: threads,
// memory, matrix products, bf16, devices. Devices are found by interfaces that every LibTorch has:
// no header of CUDA is needed.

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <stdlib.h>  // realpath, setenv
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/clock.hpp"
#include "model/arithmetic.hpp"
#include "model/compute_device.hpp"
#include "model/process_settings.hpp"
#include "model/replica.hpp"
#include "model/torch/torch_errors.hpp"

namespace eqt::model {
namespace {

/// LibTorch's own function also starts a pool for mobile devices, which fails if the processor is
/// unknown. Then the number of OpenMP's threads comes from the environment.
void set_torch_threads(int threads) {
  if (sees_processor()) {
    at::set_num_threads(threads);
    return;
  }
  const std::string text = std::to_string(threads);
  EQT_CHECK(setenv("OMP_NUM_THREADS", text.c_str(), 1) == 0, "no room for {} threads", threads);
  EQT_CHECK(unsetenv("MKL_NUM_THREADS") == 0, "no room for {} threads", threads);
  at::init_num_threads();
}

constexpr std::size_t kAlignment = 64;  // LibTorch's own

/// Stands before the values of a tensor.
struct BlockHeader {
  void* block = nullptr;      // that malloc() gave
  std::int64_t reported = 0;  // [bytes] of the tensor if a profiler was told, else 0
};
static_assert(sizeof(BlockHeader) <= kAlignment && alignof(BlockHeader) <= kAlignment);

BlockHeader* header_of(void* values) {
  return std::launder(
      reinterpret_cast<BlockHeader*>(static_cast<std::byte*>(values) - sizeof(BlockHeader)));
}

void report(void* values, std::int64_t bytes) {
  c10::reportMemoryUsageToProfiler(values, bytes, 0, 0, c10::Device(c10::DeviceType::CPU));
}

void release(void* values) {
  if (values == nullptr) return;
  const BlockHeader header = *header_of(values);
  if (header.reported != 0 && c10::memoryProfilingEnabled()) report(values, -header.reported);
  std::free(header.block);
}

/// Aligned [bytes] with a header before them.
void* aligned_block(std::size_t bytes) {
  constexpr std::size_t kBeside = sizeof(BlockHeader) + kAlignment - 1;
  void* const block = bytes <= std::numeric_limits<std::size_t>::max() - kBeside
                          ? std::malloc(bytes + kBeside)
                          : nullptr;
  TORCH_CHECK(block != nullptr, "can't allocate memory: ", bytes, " bytes");
  const auto first = reinterpret_cast<std::uintptr_t>(block) + kBeside;
  void* const values = reinterpret_cast<void*>(first - first % kAlignment);
  const bool profiled = c10::memoryProfilingEnabled();
  new (header_of(values)) BlockHeader{block, profiled ? static_cast<std::int64_t>(bytes) : 0};
  if (profiled) report(values, static_cast<std::int64_t>(bytes));
  return values;
}

class ExactBlocks final : public c10::Allocator {
 public:
  // LibTorch 1.13's signature, then 2.4's: one of them overrides.
  c10::DataPtr allocate(std::size_t bytes) const { return block_of(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return block_of(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  /// A function of LibTorch 2's allocators alone.
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  static c10::DataPtr block_of(std::size_t bytes) {
    void* const values = bytes == 0 ? nullptr : aligned_block(bytes);
    return {values, values, &release, c10::Device(c10::DeviceType::CPU)};
  }
};

/// The word that follows `label` in LibTorch's build description.
std::string word_after(const std::string& description, const std::string& label) {
  const std::size_t place = description.find(label);
  if (place == std::string::npos) return "unknown";
  const std::size_t start = place + label.size();
  return description.substr(start, description.find_first_of(", \n", start) - start);
}

/// The file with the function for matrix products; "" if the linker does not say.
std::string blas_file() {
  Dl_info info{};
  void* const symbol = dlsym(RTLD_DEFAULT, "sgemm_");
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::unique_ptr<char, decltype(&free)> path(realpath(info.dli_fname, nullptr), &free);
  return path ? path.get() : info.dli_fname;
}

/// Returns a library that the process has loaded, and that stays loaded; null: it has not.
void* loaded(const std::string& file) { return dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD); }

/// Looks in the file and in its dependencies: Debian's libblas.so.3 of OpenBLAS depends on
/// libopenblas.so.0 and has the same name as Netlib's.
std::string blas_vendor_of(const std::string& file) {
  constexpr std::array<std::pair<const char*, const char*>, 5> kMarks = {
      {{"openblas_get_config", "OpenBLAS"},
       {"MKL_Get_Version", "MKL"},
       {"mkl_get_version", "MKL"},
       {"bli_info_get_version_str", "BLIS"},
       {"ATL_buildinfo", "ATLAS"}}};
  void* const library = loaded(file);
  if (library == nullptr) return "unknown";
  for (const auto& [symbol, vendor] : kMarks) {
    if (dlsym(library, symbol) != nullptr) return vendor;
  }
  return file.find("/libblas.so") != std::string::npos ? "reference" : "unknown";
}

bool has_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;  // LibTorch 1.13 uses those of Arm processors for inference only
#endif
}

/// OpenBLAS has threads of its own, one for each core unless OMP_NUM_THREADS was set when it was
/// loaded: those of several ranks on a host would wait for each other.
void set_blas_threads(int threads) {
  void* const library = loaded(blas_file());
  if (library == nullptr) return;
  void* const symbol = dlsym(library, "openblas_set_num_threads");
  if (symbol != nullptr) reinterpret_cast<void (*)(int)>(symbol)(threads);
}

}  // namespace

bool sees_processor() { return static_cast<bool>(std::ifstream("/proc/cpuinfo")); }

void set_threads(int threads) {
  EQT_CHECK(threads >= 1, "{} threads", threads);
  guarded("setting the number of threads", [&] {
    keep_freed_memory();
    allocate_exact_blocks();
    set_own_threads(threads);
    at::globalContext().setFlushDenormal(true);
    set_torch_threads(threads);
    set_blas_threads(threads);
    static std::once_flag once;  // LibTorch refuses a second call
    std::call_once(once, [] { at::set_num_interop_threads(1); });
  });
}

std::string torch_description() {
  const LinearAlgebra found = linear_algebra().value();
  return fmt::format("LibTorch {} ({} kernels), BLAS {}", found.torch_version, found.kernels,
                     found.blas_library);
}

void allocate_exact_blocks() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetCPUAllocator(new ExactBlocks);  // LibTorch's from now on
  });
}

std::optional<LinearAlgebra> linear_algebra() {
  const std::string description = at::show_config();
  const std::string file = blas_file();
  const std::string built_with = word_after(description, "BLAS_INFO=");
  return LinearAlgebra{.torch_version = TORCH_VERSION,
                       .kernels = word_after(description, "CPU capability usage: "),
                       .blas_library = file.empty() ? built_with : file,
                       .blas_vendor = file.empty() ? built_with : blas_vendor_of(file)};
}

double matmul_flops(double seconds) {
  constexpr std::int64_t kSide = 384;
  constexpr double kOperations = 2.0 * kSide * kSide * kSide;
  double best_seconds = 0;
  guarded("timing a matrix product", [&] {
    const at::Tensor a = at::ones({kSide, kSide}), b = at::ones({kSide, kSide});
    at::Tensor product = at::mm(a, b);  // starts the library's threads
    const Stopwatch whole;
    do {
      const Stopwatch once;
      at::mm_out(product, a, b);
      const double took = once.seconds();
      best_seconds = best_seconds == 0 ? took : std::min(best_seconds, took);
    } while (whole.seconds() < seconds);
  });
  return kOperations / std::max(best_seconds, 1e-9);
}

Bf16Arithmetic bf16_arithmetic() {
  const char* const chosen = std::getenv("EQT_BF16");
  const bool native = has_instructions() && at::globalContext().hasMKLDNN() &&
                      (chosen == nullptr || std::string_view(chosen) != "storage");
  return native ? Bf16Arithmetic::native : Bf16Arithmetic::storage;
}

std::string_view describe(Bf16Arithmetic arithmetic) {
  return arithmetic == Bf16Arithmetic::native ? "bf16 products, float32 sums"
                                              : "float32, images kept in bf16";
}

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
