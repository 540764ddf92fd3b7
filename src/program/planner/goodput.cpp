// SPDX-License-Identifier: Apache-2.0
#include "planner/goodput.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace eqt::planner {

double goodput_of(const Failures& f, double interval) {
  const double lost = f.restart_seconds + interval / 2 + f.join_seconds +
                      f.absent_seconds / static_cast<double>(f.boards);
  return std::max(0.0, 1 - f.save_seconds / interval - f.per_second * lost);
}

double best_interval_of(const Failures& f) {
  if (f.per_second <= 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(2 * f.save_seconds / f.per_second);
}

double interval_in_memory(const Failures& f) {
  constexpr double kSeconds = 1;   // checkpoint.memory_seconds of run_hosts.sh
  constexpr double kShare = 0.01;  // of the time, which states may take
  return std::max(kSeconds, f.save_seconds / kShare);
}

}  // namespace eqt::planner
