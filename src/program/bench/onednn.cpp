// SPDX-License-Identifier: Apache-2.0
#include "bench/onednn.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace eqt::bench {
namespace {

const char* instructions_of(int8::Kernels kernels) {
  switch (kernels) {
    case int8::Kernels::avx2_pair:
      return "AVX2";
    case int8::Kernels::avx_vnni:
      return "AVX2_VNNI";
    default:
      return "ALL";
  }
}

}  // namespace

std::unique_ptr<OneDnn> load_onednn(int8::Kernels kernels) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto file = program.parent_path() / "libeqt_onednn.so";
  if (error || !std::filesystem::exists(file, error)) return nullptr;
  // Names of a oneDNN inside LibTorch come after those of the one that this was compiled with.
  void* const object = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (object == nullptr) return nullptr;
  const auto make = reinterpret_cast<MakeOneDnn>(dlsym(object, kOneDnnEntry));
  return std::unique_ptr<OneDnn>(make == nullptr ? nullptr : make(instructions_of(kernels)));
}

}  // namespace eqt::bench
