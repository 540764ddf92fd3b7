// SPDX-License-Identifier: Apache-2.0
#include "model/linear_algebra.hpp"

#include <ATen/Functions.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <stdlib.h>  // realpath
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/clock.hpp"
#include "model/torch/torch_errors.hpp"

namespace eqt::model {
namespace {

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

/// Looks in the file and in its dependencies: Debian's libblas.so.3 of OpenBLAS depends on
/// libopenblas.so.0 and has the same name as Netlib's.
std::string blas_vendor_of(const std::string& file) {
  constexpr std::array<std::pair<const char*, const char*>, 5> kMarks = {
      {{"openblas_get_config", "OpenBLAS"},
       {"MKL_Get_Version", "MKL"},
       {"mkl_get_version", "MKL"},
       {"bli_info_get_version_str", "BLIS"},
       {"ATL_buildinfo", "ATLAS"}}};
  // RTLD_NOLOAD: the library is loaded already, and stays loaded.
  void* const library = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "unknown";
  for (const auto& [symbol, vendor] : kMarks) {
    if (dlsym(library, symbol) != nullptr) return vendor;
  }
  return file.find("/libblas.so") != std::string::npos ? "reference" : "unknown";
}

}  // namespace

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

}  // namespace eqt::model
