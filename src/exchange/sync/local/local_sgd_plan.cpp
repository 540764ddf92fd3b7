// SPDX-License-Identifier: Apache-2.0
#include "sync/local/local_sgd_plan.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::sync {

bool LocalSgdPlan::averages_after(StepId step, std::size_t fragment) const {
  if (step + 1 == total_steps) return true;
  if (fragments > 1) return (step + 1 + local_steps - offset(fragment)) % local_steps == 0;
  if (!ends.empty()) return std::ranges::binary_search(ends, step);
  return step < dense_steps || (step + 1 - dense_steps) % local_steps == 0;
}

StepId LocalSgdPlan::delay_after(StepId sent) const {
  if (delay) return *delay;
  if (ends.empty()) return automatic_delay(local_steps);
  const auto next = std::ranges::upper_bound(ends, sent);
  return automatic_delay((next == ends.end() ? total_steps - 1 : *next) - sent);
}

StepId LocalSgdPlan::averages_before(StepId step, std::size_t fragment) const {
  if (fragments > 1) {
    const StepId begin = offset(fragment);  // its first round is shorter, unless this is 0
    return (step + local_steps - begin) / local_steps - (begin == 0 ? 1 : 0);
  }
  if (!ends.empty())
    return static_cast<StepId>(std::ranges::lower_bound(ends, step) - ends.begin());
  return step <= dense_steps ? step : dense_steps + (step - dense_steps) / local_steps;
}

std::vector<StepId> quadratic_round_ends(const QuadraticRule& rule,
                                         const std::function<float(StepId)>& rate_at,
                                         StepId total_steps, std::int64_t shift,
                                         StepId warmup_steps) {
  constexpr std::size_t kMostRounds = 10'000'000;
  constexpr double kRounding = 1e-6;  // rates are float32: a whole number must not become the one
                                      // below
  std::vector<StepId> ends;
  StepId begin = static_cast<StepId>(std::max<std::int64_t>(0, -shift));
  while (begin < total_steps) {
    const auto position = static_cast<StepId>(static_cast<std::int64_t>(begin) + shift);
    const auto rate = static_cast<double>(rate_at(std::max(position, warmup_steps)));
    const double wanted =
        rate > 0 ? std::pow(rule.alpha / rate, 2) : static_cast<double>(rule.most);
    const double steps =
        std::clamp(std::floor(wanted * (1 + kRounding)), static_cast<double>(rule.least),
                   static_cast<double>(std::max(rule.least, rule.most)));
    begin += static_cast<StepId>(steps);
    ends.push_back(std::min(begin, total_steps) - 1);
    if (ends.size() > kMostRounds)
      fail(Kind::usage,
           "synchronization.local_steps \"qsr\": expected at most {} rounds, found more in {} "
           "steps; raise synchronization.local_steps_base or train fewer steps",
           kMostRounds, total_steps);
  }
  return ends;
}

}  // namespace eqt::sync
