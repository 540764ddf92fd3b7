// SPDX-License-Identifier: Apache-2.0
// The relative variance E|Q(v) - v|^2 / |v|^2 of values that are divided into buckets: exact,
// bounds for every vector of a level table, the vector that comes nearest to the bound, and the
// published tables side by side. All theory of levels is per bucket.
//
// Source   level codecs: sum over values of (l_(j+1) - r)(r - l_j) norm^2, see
//          codec/levels/levels.hpp; natural compression: Horvath et al., arXiv:1905.10988; bounds:
//          theorem 2 of F. Faghri et al., NeurIPS 2020, arXiv:2010.12460, with the infimum in
//          closed form; the dual of the worst case, sinh levels: docs/compressors.md, "Level
//          tables"; QSGD: Alistarh et al. 2017; QSGD-V: its maximum-norm variant; NUQSGD:
//          Ramezani-Kebrya et al., JMLR 22, 2021
// Symbols  R largest quotient of neighbouring levels; A = l_1 sqrt(d); phi(A) = A^2/4 up to 2, then
//          A - 1; tau_j = l_j + l_(j+1)

#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/levels/levels.hpp"
#include "codec/options.hpp"

namespace eqt::theory {

/// A level codec for theory: a table, a bucket size, a norm.
struct LevelScheme {
  codec::Levels levels;         // l_0 = 0 < ... < l_n = 1
  std::size_t bucket_size = 1;  // d [values]
  codec::Norm norm = codec::Norm::l2;

  /// n, nonzero levels.
  int count() const { return static_cast<int>(levels.size()) - 1; }
  /// Bits of a fixed code: the sign and an index up to n.
  int fixed_bits() const;
};

/// The codec's levels, rounded to float32, as doubles. Empty for codecs without a table.
std::optional<codec::Levels> levels_of(const codec::Compressor& compressor);

/// Calls visit(bucket) for the consecutive buckets of d values; the last one may be shorter.
template <typename Visit>
void each_bucket(std::span<const float> values, std::size_t d, const Visit& visit) {
  for (std::size_t start = 0; start < values.size(); start += d)
    visit(values.subspan(start, std::min(d, values.size() - start)));
}

struct LevelBounds {
  double ratio = 1;       // R; 1 for a single level
  double smallest = 0;    // A
  double phi = 0;         // phi(A)
  double theorem2 = 0;    // (R - 1)^2 / (4 R) + phi(A)
  double worst_case = 0;  // the best bound known; under the maximum norm it is reached
};

/// Returns the bounds for vectors of at most `scheme.bucket_size` values.
LevelBounds level_bounds(const LevelScheme& scheme);

/// A vector of two magnitudes: `heads` values of `head`, then `bodies` of `body`, scaled to a norm
/// of 1.
struct AdversarialVector {
  std::size_t heads = 0;
  double head = 0;
  std::size_t bodies = 0;
  double body = 0;
  double ratio = 0;  // E|Q(v) - v|^2 / |v|^2, exact

  /// The values in float32, with alternating signs.
  std::vector<float> values() const;
};

/// Maximum norm: one value of 1 and the others r = tau_j / (2 (1 + e)), which reaches the worst
/// case e. L2: of all splits of d values into two cells the one with the largest variance; it is
/// below the dual bound only because counts are integers.
AdversarialVector adversarial_vector(const LevelScheme& scheme);

/// Variance of rounding r, (l_(j+1) - r)(r - l_j) in its cell.
double rounding_variance(const codec::Levels& levels, double r);

/// Sums over values; absolute, so that buckets, tensors and ranks can be added.
struct VarianceSums {
  double squares = 0;     // |v|^2
  double exact = 0;       // E|Q(v) - v|^2
  double worst_case = 0;  // of all vectors whose buckets have these norms
  double theorem2 = 0;
  double nonzeros = 0;  // E[indices that are not 0]
  std::size_t values = 0;

  VarianceSums& operator+=(const VarianceSums& other);
  /// Relative to |v|^2; 0 for zeros.
  double exact_ratio() const { return squares > 0 ? exact / squares : 0; }
  double worst_case_ratio() const { return squares > 0 ? worst_case / squares : 0; }
  double theorem2_ratio() const { return squares > 0 ? theorem2 / squares : 0; }
};

/// The sums of one segment. Shorter buckets have smaller bounds.
VarianceSums level_variance(const LevelScheme& scheme, std::span<const float> values);

/// Values that are sent as float32 have no variance.
VarianceSums raw_variance(std::span<const float> values);

/// E|Q(v) - v|^2 / |v|^2 of natural compression: each value is between two powers of two.
double natural_variance(std::span<const float> values);

/// Worst-case variances of b bits, sign included, and buckets of d values.
struct WorstCaseRow {
  int bits = 0;
  int levels = 0;  // n = 2^(b-1) - 1
  std::size_t bucket_size = 0;
  double theta_l2 = 0, elastiquant_l2 = 0;  // closed form sinh^2(theta/2) (1 + d / sinh^2(n theta))
  double elastiquant_l2_dual = 0;           // the same by the dual
  double theta_max = 0, elastiquant_max = 0;  // sinh^2(theta/2), theta = asinh(sqrt(d-1)) / n
  double elastiquant_max_fixed_point = 0;
  double qsgd = 0, qsgd_dual = 0;             // phi(sqrt(d) / n)
  double qsgd_v = 0, qsgd_v_fixed_point = 0;  // (sqrt(1 + (d-1)/n^2) - 1) / 2
  double nuqsgd = 0, nuqsgd_max = 0;          // p = 1/2, L2 and maximum norm, by the dual
  double nuqsgd_theorem = 0;                  // 1/8 + phi(2^(1-n) sqrt(d))
  double best_p = 0, exponential = 0;         // the p with the smallest worst case, L2
};

/// @pre 2 <= bits <= 8, bucket_size >= 2
WorstCaseRow worst_case_row(int bits, std::size_t bucket_size);

}  // namespace eqt::theory
