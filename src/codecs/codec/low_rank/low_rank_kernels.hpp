// SPDX-License-Identifier: Apache-2.0
// Products of a tall or wide float32 matrix with a few vectors, by Highway.
//
// Matrices are row-major; factors are stored vector after vector: P holds `rank` vectors of `rows`
// values, Q holds `rank` vectors of `columns` values. All sums have a fixed order, which depends
// neither on the instruction set nor on row blocks or the rank, and no operation is fused: every
// machine computes the same
// bits. Each function reads M (or writes it) once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace eqt::codec {

/// Sizes of a matrix and of its factors.
struct FactorShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
  std::size_t left() const { return rows * rank; }      // values of P
  std::size_t right() const { return columns * rank; }  // values of Q
};

/// P = M Q. Sixteen partial sums per element, column j of M added to sum j mod 16; then sum k +=
/// sum k+w for k < w, w = 8, 4, 2, 1.
/// @pre M has rows * columns values, Q columns * rank, P rows * rank
void multiply(std::span<const float> m, std::span<const float> q, const FactorShape& shape,
              std::span<float> p);

/// Q = M^T P. Rows are taken in groups of eight (missing ones count as +0), whose products are
/// added pairwise: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)); groups are added in ascending order.
void multiply_transposed(std::span<const float> m, std::span<const float> p,
                         const FactorShape& shape, std::span<float> q);

/// out[i][j] = sum over k of P_k[i] Q_k[j], k ascending. `out` may be shorter than rows * columns:
/// the last values are left out.
void expand(std::span<const float> p, std::span<const float> q, const FactorShape& shape,
            std::span<float> out);

/// out[i][j] += scale * (the same sum).
void expand_add(std::span<const float> p, std::span<const float> q, const FactorShape& shape,
                float scale, std::span<float> out);

/// Sum of a[i] b[i] in the order of multiply(), in float64.
double dot(std::span<const double> a, std::span<const double> b);

/// to[i] -= factor * from[i].
void subtract_scaled(double factor, std::span<const double> from, std::span<double> to);

}  // namespace eqt::codec
