// SPDX-License-Identifier: Apache-2.0
// Common parts of the low-rank compressors: products of a tall or wide float32 matrix with a few
// vectors, by Highway; shapes of the factors, the start of the iteration, an orthonormal basis, and
// where the scratch arrays are.
//
// Matrices are row-major; factors are stored vector after vector: P holds `rank` vectors of `rows`
// values, Q holds `rank` vectors of `columns` values. All sums have a fixed order, which depends
// neither on the instruction set nor on row blocks or the rank, and no operation is fused: every
// machine computes the same bits. Each product reads M (or writes it) once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/workspace.hpp"

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

/// The largest rank that compressors accept.
inline constexpr std::size_t kMaxRank = 32;

// The scratch arrays of the low-rank codecs. Arrays that one call uses at the same time have
// different slots.

// atomo: a matrix with zeros up to the end of its last row; or the indices of the atoms kept.
inline constexpr ScratchArray<float> kPaddedMatrix{0};
inline constexpr ScratchArray<std::uint32_t> kKeptIndices{0};
// orthonormalise(): the vectors in float64.
inline constexpr ScratchArray<double> kExactVectors{0};

// spectrum(): the Gram matrix, its eigenvectors, and room for a block of rows.
inline constexpr ScratchArray<double> kGramMatrices{1};

inline constexpr ScratchArray<float> kLeftFactor{2};
inline constexpr ScratchArray<float> kRightFactor{3};

/// Shape of the factors of `count` values with `rows` rows: rank min(rank, rows, columns). Rank 0
/// for values that are sent as they are: vectors, and matrices whose factors would be no smaller.
/// @pre rows is 0 or divides count
FactorShape factor_shape(std::size_t count, std::size_t rows, std::size_t rank);

/// Q to start from: values of mean 0 and variance 1, nearly normal (sums of twelve 16-bit uniform
/// integers, so that the bits are the same everywhere). A function of run seed and slice: the same
/// on every rank and in every step.
void draw_start(std::uint64_t run_seed, std::uint32_t slice, const FactorShape& shape,
                std::span<float> q);

/// Makes the `rank` vectors of `p` orthonormal, by modified Gram-Schmidt in float64, each vector
/// projected twice. A vector that is zero or depends on the ones before it (less than 1e-12 of it
/// is left) is replaced by a pseudo-random one, so that the result is always a basis and the
/// iteration continues after a zero gradient. The same bits on every machine.
/// @pre rank <= rows
/// @return false if a value of `p` is not finite; p is then unspecified
[[nodiscard]] bool orthonormalise(const FactorShape& shape, Workspace& workspace,
                                  std::span<float> p);

}  // namespace eqt::codec
