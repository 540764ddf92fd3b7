// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "model/linear_algebra.hpp"
#include "model/process_settings.hpp"
#include "model/replica.hpp"
#include "model/torch/cpu_allocator.hpp"
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
    static std::once_flag once;  // LibTorch refuses a second call
    std::call_once(once, [] { at::set_num_interop_threads(1); });
  });
}

std::string torch_description() {
  const LinearAlgebra found = linear_algebra().value();
  return fmt::format("LibTorch {} ({} kernels), BLAS {}", found.torch_version, found.kernels,
                     found.blas_library);
}

}  // namespace eqt::model
