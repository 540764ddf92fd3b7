// SPDX-License-Identifier: Apache-2.0
// The steps in which local SGD averages, and those in which late averages are applied.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/layout.hpp"

namespace eqt::sync {

/// A delay of "auto" is half of the steps of the next round, rounded up. Later averages hide longer
/// messages, but cost accuracy as longer rounds do (docs/algorithms.md has measurements): who
/// needs them asks for them by a number.
constexpr StepId automatic_delay(StepId local_steps) { return (local_steps + 1) / 2; }

/// A round ends with a step after which ranks send how far their models have moved.
struct LocalSgdPlan {
  StepId local_steps = 1;  // H: steps per round; the run's last step ends a round, too
  /// Post-local SGD (T. Lin et al., ICLR 2020, arXiv:1808.07217): averages in each of this many
  /// first steps, and in every H-th afterwards.
  StepId dense_steps = 0;
  StepId total_steps = 1;
  /// D: steps between the end of a round and the step after which its mean is applied. 0: at once;
  /// empty: automatic_delay() of the next round.
  std::optional<StepId> delay = 0;
  /// The steps that end rounds of different lengths, in order, except the run's last step. Not
  /// empty: local_steps and dense_steps are not read.
  std::vector<StepId> ends = {};
  /// F: parts of the model with rounds of their own, whose ends are spread over H steps: that of
  /// fragment f ends floor(f H / F) steps after that of fragment 0.
  /// @pre 1, or no dense_steps and no `ends`
  std::size_t fragments = 1;

  bool averages_after(StepId step, std::size_t fragment = 0) const;
  /// Averages of the fragment before `step`.
  StepId averages_before(StepId step, std::size_t fragment = 0) const;
  bool delays() const noexcept { return delay != StepId{0}; }
  /// Returns true if the mean of the fragment's round that ended with `sent` is applied after
  /// `step`.
  bool merges_after(StepId step, StepId sent) const {
    return step + 1 == total_steps || step == sent + delay_after(sent);
  }

 private:
  StepId delay_after(StepId sent) const;
  StepId offset(std::size_t fragment) const { return fragment * local_steps / fragments; }
};

/// The quadratic synchronization rule (X. Gu et al., ICLR 2024, arXiv:2310.14423).
struct QuadraticRule {
  StepId least = 2;     // H_base
  StepId most = 1000;   // greatest H, for rates near 0
  double alpha = 0.05;  // H = max(least, (alpha / learning rate)^2)
};

/// The ends of its rounds, for LocalSgdPlan::ends: a round that begins with step s has max(least,
/// floor((alpha / rate)^2)) steps, at the rate of step s. While the rate rises in a warm-up, the
/// rate after it counts, because the rule is for falling rates.
/// @param rate_at the learning rate at a position of the schedule
/// @param shift the position of a step is step + shift; steps before position 0 have no rounds
/// @param warmup_steps positions before this one are in the warm-up
/// @throws Error{usage} for a run of more than 10^7 rounds
std::vector<StepId> quadratic_round_ends(const QuadraticRule& rule,
                                         const std::function<float(StepId)>& rate_at,
                                         StepId total_steps, std::int64_t shift,
                                         StepId warmup_steps);

}  // namespace eqt::sync
