// SPDX-License-Identifier: Apache-2.0
#include "theory/worst_case.hpp"

#include <cmath>

#include "codec/levels/level_design.hpp"
#include "codec/levels/levels.hpp"
#include "core/error.hpp"

namespace eqt::theory {

WorstCaseRow worst_case_row(int bits, std::size_t bucket_size) {
  using codec::Norm;
  EQT_CHECK(bits >= 2 && bits <= 8 && bucket_size >= 2, "{} bits, {} values", bits, bucket_size);
  const int n = (1 << (bits - 1)) - 1;
  const auto d = static_cast<double>(bucket_size);
  const auto worst = [&](const codec::Levels& levels, Norm norm) {
    return codec::worst_case_variance(levels, bucket_size, norm);
  };
  const codec::Levels uniform = codec::uniform_levels(n),
                      halves = codec::exponential_levels(n, 0.5);
  WorstCaseRow row{.bits = bits, .levels = n, .bucket_size = bucket_size};
  row.theta_l2 = codec::optimal_theta(n, bucket_size, Norm::l2);
  row.elastiquant_l2 = codec::sinh_worst_case_l2(n, bucket_size, row.theta_l2);
  row.elastiquant_l2_dual = worst(codec::sinh_levels(n, row.theta_l2), Norm::l2);
  row.theta_max = codec::optimal_theta(n, bucket_size, Norm::max);
  row.elastiquant_max = std::pow(std::sinh(row.theta_max / 2), 2);
  row.elastiquant_max_fixed_point = worst(codec::sinh_levels(n, row.theta_max), Norm::max);
  row.qsgd = codec::phi(std::sqrt(d) / n);
  row.qsgd_dual = worst(uniform, Norm::l2);
  row.qsgd_v = (std::sqrt(1 + (d - 1) / (double{1} * n * n)) - 1) / 2;
  row.qsgd_v_fixed_point = worst(uniform, Norm::max);
  row.nuqsgd = worst(halves, Norm::l2);
  row.nuqsgd_max = worst(halves, Norm::max);
  row.nuqsgd_theorem = codec::theorem2_variance(halves, bucket_size, Norm::l2);
  row.best_p = codec::optimal_p(n, bucket_size, Norm::l2);
  row.exponential = worst(codec::exponential_levels(n, row.best_p), Norm::l2);
  return row;
}

}  // namespace eqt::theory
