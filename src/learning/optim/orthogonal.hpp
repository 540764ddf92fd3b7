// SPDX-License-Identifier: Apache-2.0
// The nearest matrix with orthogonal rows or columns, by Newton and Schulz's iteration.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace eqt::optim {

/// Orthogonalizer replaces a matrix U S V' by about U V': its singular values become numbers around
/// 1, from 0.7 to 1.2 after five iterations unless they were below a thousandth of the Frobenius
/// norm.
///
/// Source   K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024,
///          section "Definition"; N. Higham, "Functions of Matrices", 2008, chapter 8
/// Formula  X <- M / (|M| + 1e-7) in Frobenius's norm; then X <- a X + (b A + c A A) X, A = X X',
///          with a = 3.4445, b = -4.7750, c = 2.0315
/// Numbers  products and sums of float32 in the order of their indices, without fused
///          multiply-add: the same bits on every processor. The source computes in bfloat16.
class Orthogonalizer {
 public:
  /// @param matrix (rows, columns), row-major, replaced; zeros stay zeros
  void apply(std::size_t rows, std::size_t columns, int iterations, std::span<float> matrix);

 private:
  std::vector<float> x_, transposed_, gram_, polynomial_, panel_;
};

}  // namespace eqt::optim
