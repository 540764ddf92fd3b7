// SPDX-License-Identifier: Apache-2.0
// Level tables in [0, 1] and the variance of stochastic rounding between them; all in fp64.
//
// Source   uniform: Alistarh et al. 2017 (QSGD); exponential: Ramezani-Kebrya et al. 2021 (NUQSGD);
//          bound for general levels: Faghri et al. 2020 (ALQ), theorem 2; sinh and the dual of the
//          worst case: derived in docs/compressors.md, section "Level tables"
// Symbols  l_0 = 0 < l_1 < ... < l_n = 1 levels; d values per bucket; r = |v| / norm in [0, 1]

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codec/options.hpp"

namespace eqt::codec {

/// l_0 ... l_n. Strictly increasing from 0 to 1.
using Levels = std::vector<double>;

/// l_j = j / n.
Levels uniform_levels(int n);
/// l_j = sinh(j theta) / sinh(n theta); theta = 0 gives uniform levels.
Levels sinh_levels(int n, double theta);
/// l_0 = 0 and l_j = p^(n - j); p = 1/2 is NUQSGD.
Levels exponential_levels(int n, double p);
/// NUQSGD's variance hardly falls from 5 bits on, because neighbouring levels stay a factor 2
/// apart.
inline constexpr int kMaxNuqsgdBits = 6;
/// l_j = ((1 + mu)^(j/n) - 1) / mu: mu-law companding; mu = 0 gives uniform levels.
Levels mulaw_levels(int n, double mu);

/// Index of the first entry of a table l_1 ... l_n that is not above its predecessor (l_0 = 0), or
/// of the last entry if it is not 1; table.size() for a valid table.
inline std::size_t first_bad_level(std::span<const double> table) noexcept {
  double below = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!(table[i] > below) || table[i] > 1) return i;
    below = table[i];
  }
  return below == 1 || table.empty() ? table.size() : table.size() - 1;
}

/// The cell that holds r, and the probability that r is rounded up to its upper end.
struct Cell {
  std::size_t lower = 0;  // index j with l_j <= r < l_(j+1); n-1 for r = 1
  double up = 0;          // (r - l_j) / (l_(j+1) - l_j)
};
Cell find_cell(std::span<const double> levels, double r);

/// Norm of one bucket, in fp64.
double vector_norm(std::span<const float> values, Norm norm);

/// E|Q(v) - v|^2 / |v|_2^2 of these values, exactly; 0 for a zero vector.
double exact_variance(std::span<const double> levels, std::span<const float> values, Norm norm);

/// E[number of nonzero indices] of these values, exactly.
double expected_nonzeros(std::span<const double> levels, std::span<const float> values, Norm norm);

/// A^2 / 4 for A <= 2, else A - 1: the infimum over p in ALQ's theorem 2, closed form.
double phi(double a) noexcept;

/// ALQ's theorem 2: a bound of exact_variance() for every vector of d values.
double theorem2_variance(std::span<const double> levels, std::size_t d, Norm norm);

/// The tightest known constant: maximum norm, the exact supremum over all vectors of d values;
/// L2, the Lagrange dual (an upper bound, equal to the supremum up to integrality).
double worst_case_variance(std::span<const double> levels, std::size_t d, Norm norm);

}  // namespace eqt::codec
