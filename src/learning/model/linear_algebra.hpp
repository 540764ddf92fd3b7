// SPDX-License-Identifier: Apache-2.0
// The library that computes LibTorch's matrix products, and its speed. No torch in this header.

#pragma once

#include <optional>
#include <string>

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

}  // namespace eqt::model
