// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of M^T M for matrices with few columns.

#pragma once

#include <cstddef>
#include <span>

#include "core/workspace.hpp"

namespace eqt::codec {

/// Most columns of a matrix that spectrum() takes.
inline constexpr std::size_t kMaxColumns = 64;

/// Right singular vectors of a row-major matrix of count / columns rows, by cyclic Jacobi rotations
/// of M^T M, all in float64 with a fixed order of sums: the same bits on every machine.
///
/// The vectors are orthonormal to 1e-14 for any M, so M = sum of (M v_i) v_i^T holds even if
/// singular values below 1e-8 of the largest are lost to rounding.
/// @param singular `columns` values, at least 0, in no order; all NaN if a value of m is not finite
/// @param vectors v_0, v_1, ... of `columns` values each
/// @pre columns <= kMaxColumns divides m.size()
void spectrum(std::span<const float> m, std::size_t columns, Workspace& workspace,
              std::span<double> singular, std::span<double> vectors);

}  // namespace eqt::codec
