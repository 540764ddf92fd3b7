// SPDX-License-Identifier: Apache-2.0
// Published and elastic level tables side by side: smallest bounds that hold for every vector.
//
// Source   QSGD: Alistarh et al. 2017; QSGD-V: its maximum-norm variant; NUQSGD: Ramezani-Kebrya et
//          al., JMLR 22, 2021; sinh levels: docs/compressors.md, "Level tables"

#pragma once

#include <cstddef>
#include <optional>

#include "codec/options.hpp"

namespace eqt::theory {

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
