#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <stdlib.h>  // realpath
#include <torch/version.h>

#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "model/replica.hpp"
#include "model/torch_errors.hpp"
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace eqt::model {
namespace {

/// Lets the C library keep what is freed. By default it returns every activation to the kernel and
/// faults its pages in again each step: 15 % of ResNet-20's time (batch 64, one core, glibc 2.36).
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

/// The word that follows `label` in LibTorch's build description.
std::string word_after(const std::string& description, const std::string& label) {
  const std::size_t place = description.find(label);
  if (place == std::string::npos) return "unknown";
  const std::size_t start = place + label.size();
  return description.substr(start, description.find_first_of(", \n", start) - start);
}

/// The file that serves matrix products, for they are slow without an optimised BLAS; how LibTorch
/// was built when the linker does not tell.
std::string blas_library(const std::string& description) {
  Dl_info info{};
  void* const symbol = dlsym(RTLD_DEFAULT, "sgemm_");
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) {
    return word_after(description, "BLAS_INFO=");
  }
  const std::unique_ptr<char, decltype(&free)> path(realpath(info.dli_fname, nullptr), &free);
  return path ? path.get() : info.dli_fname;
}

}  // namespace

void set_threads(int threads) {
  EQT_CHECK(threads >= 1, "{} threads", threads);
  guarded("setting the number of threads", [&] {
    keep_freed_memory();
    at::globalContext().setFlushDenormal(true);
    at::set_num_threads(threads);
    static std::once_flag once;  // LibTorch refuses a second call
    std::call_once(once, [] { at::set_num_interop_threads(1); });
  });
}

std::string torch_description() {
  const std::string description = at::show_config();
  return fmt::format("LibTorch {} ({} kernels), BLAS {}", TORCH_VERSION,
                     word_after(description, "CPU capability usage: "), blas_library(description));
}

}  // namespace eqt::model
