// SPDX-License-Identifier: Apache-2.0
// Common parts of the low-rank compressors: shapes of the factors, the start of the iteration, and
// an orthonormal basis.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/low_rank/low_rank_kernels.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

/// The largest rank that compressors accept.
inline constexpr std::size_t kMaxRank = 32;

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
