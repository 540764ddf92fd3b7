// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <string>

#include "model/linear_algebra.hpp"
#include "model/replica.hpp"
#include "model/torch_errors.hpp"
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace eqt::model {
namespace {

/// Makes the C library keep freed memory. By default it returns every activation's memory to the
/// kernel, which causes page faults in each step: 15 % of ResNet-20's time (batch 64, one core,
/// glibc 2.36).
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

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

}  // namespace

bool sees_processor() { return static_cast<bool>(std::ifstream("/proc/cpuinfo")); }

void set_threads(int threads) {
  EQT_CHECK(threads >= 1, "{} threads", threads);
  guarded("setting the number of threads", [&] {
    keep_freed_memory();
    at::globalContext().setFlushDenormal(true);
    set_torch_threads(threads);
    static std::once_flag once;  // LibTorch refuses a second call
    std::call_once(once, [] { at::set_num_interop_threads(1); });
  });
}

std::string torch_description() {
  const LinearAlgebra found = linear_algebra();
  return fmt::format("LibTorch {} ({} kernels), BLAS {}", found.torch_version, found.kernels,
                     found.blas_library);
}

}  // namespace eqt::model
