// SPDX-License-Identifier: Apache-2.0
// LibTorch computes with these on this processor: the library of its matrix products, whose speed
// is measured, and bf16. This header includes nothing of torch.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace eqt::model {

struct LinearAlgebra {
  std::string torch_version;  // "1.13.1"
  std::string kernels;        // LibTorch's own vector kernels: "AVX2"
  /// The file from which the dynamic linker takes sgemm_, links resolved; if that is unknown, how
  /// LibTorch was built.
  std::string blas_library;
  /// "OpenBLAS", "MKL", "BLIS", "ATLAS", "reference" (the unoptimised Fortran of Netlib) or
  /// "unknown". It is recognised by functions that only that library has, not by its file's name.
  /// If the BLAS is a part of LibTorch, this is LibTorch's name for it ("mkl").
  std::string blas_vendor;
};
/// None in a build without LibTorch.
std::optional<LinearAlgebra> linear_algebra();

/// The best of repeated 384 × 384 products for about `seconds`, with the threads of set_threads()
/// [floating-point operations per second]; 0 in a build without LibTorch.
double matmul_flops(double seconds);

/// A network in bf16 computes with one of these.
enum class Bf16Arithmetic {
  none,     // a build without LibTorch
  native,   // products of bf16, sums in float32
  storage,  // images are kept in bf16; convolutions compute in float32
};

/// Native on processors with avx512_bf16, if LibTorch has oneDNN. Without the instructions bf16
/// convolutions of LibTorch are slower than float32's. The environment's EQT_BF16=storage chooses
/// storage, for tests.
Bf16Arithmetic bf16_arithmetic();

/// "bf16 products, float32 sums", "float32, images kept in bf16" or "none in this build".
std::string_view describe(Bf16Arithmetic arithmetic);

}  // namespace eqt::model
