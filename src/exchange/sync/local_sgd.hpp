// SPDX-License-Identifier: Apache-2.0
// Local SGD: ranks train alone and average their models every few steps, at once or later.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/layout.hpp"
#include "sync/direction.hpp"
#include "sync/divergence.hpp"
#include "sync/gradient_averaging.hpp"
#include "sync/synchronizer.hpp"

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
  /// Returns true if that mean should have been applied after an earlier step: a resumed run may
  /// have shorter rounds than the one that sent it.
  bool is_overdue(StepId step, StepId sent) const { return step > sent + delay_after(sent); }

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

/// A round does this with the mean of the ranks' differences m, which is treated as a gradient:
/// z = momentum z + m; s = learning_rate z, with Nesterov learning_rate (m + momentum z); r -= s.
struct OuterStep {
  float learning_rate = 1, momentum = 0;
  bool nesterov = false;
  /// With the rate g of the round, z is of m / g, and s is multiplied by g (SlowMo, J. Wang et al.,
  /// ICLR 2020, arXiv:1910.00643, algorithm 1): what earlier rounds moved at a higher rate moves a
  /// round at a lower one by no more than that.
  bool by_rate = false;
  /// alpha: what a rank keeps of its model, x = alpha x + (1 - alpha) r. Unset: its whole progress
  /// since its difference was sent. After the run's last step x = r.
  std::optional<float> mixing = {};

  /// s, for one value.
  /// @param z updated; not read without momentum
  /// @param rate g, the mean of the round's learning rates; read with by_rate alone. Where it is 0
  /// nothing has moved.
  float of(float mean, float& z, float rate) const {
    if (momentum == 0) return learning_rate * mean;
    if (!by_rate) rate = 1;
    const float direction = rate > 0 ? mean / rate : 0;
    z = momentum * z + direction;
    return learning_rate * rate * (nesterov ? direction + momentum * z : z);
  }
};

struct LocalSgdParts {
  comm::Communicator& comm;
  /// Averages `difference` over ranks; its steps are the averages made so far.
  std::unique_ptr<FragmentAveraging> mean;
  Direction* direction = nullptr;  // null: the optimizer has momentum and weight decay
  std::span<float> parameters, gradient;
  /// Ranks send this: without a delay `gradient`, which is free after an update; with one another
  /// buffer, because gradients are computed while messages are under way.
  std::span<float> difference;
  const Layout& layout;              // of these
  Divergence* divergence = nullptr;  // gets models that are not finite; null: they are errors
};

/// Local SGD (S. Stich, ICLR 2019, arXiv:1805.09767): every H steps x = r - mean(r - x), where r is
/// the last average; r - x is compressed, with the memory of `mean`. Between averages parameters
/// differ between ranks. Momentum is local.
///
/// With H = 1 and no compression it is synchronous SGD up to rounding, momentum and weight decay
/// included: both are linear in gradients and models, so the mean of the ranks' updates is the
/// update by the mean gradient.
///
/// With a delay of D steps the messages are under way while the ranks take D more steps. Then r -=
/// s and x += p - s, where p = r - x was this rank's own difference and s comes from the mean: a
/// rank keeps its own progress since, and only that of the others is late (DaSGD, Q. Zhou et al.,
/// arXiv:2006.00441; DGA, L. Zhu et al., NeurIPS 2021). A late mean is waited for, so the result
/// does not depend on timing. After the last step x = r on all ranks.
///
/// The outer step is that of SlowMo (J. Wang et al., ICLR 2020, arXiv:1910.00643; with by_rate) and
/// of DiLoCo (A. Douillard et al., arXiv:2311.08105). With a delay it comes later, as in CO2 (W.
/// Sun et al., ICLR 2024, arXiv:2401.16265), whose staleness gap penalty and outer momentum
/// clipping are not here. Deviates from SlowMo: where the rate changes within a round, its mean
/// counts.
///
/// With fragments each of them has rounds of its own, so that less is sent at once, more often
/// (Streaming DiLoCo, A. Douillard et al., arXiv:2501.18512, which also mixes). Messages of one
/// fragment are under way at a time: before those of the next are sent, they are waited for, so
/// that ranks can compare notes (health checks) between two rounds however long the delay is. A
/// delay hides min(D, floor(H / F)) steps of them. In the last step all fragments are sent.
///
/// Quasi-global momentum uses the movement between two averages, divided by the sum of the learning
/// rates (T. Lin et al., ICML 2021, appendix: several local steps). It is equal on all ranks.
/// @pre with a direction, no delay, one fragment and the default outer step
std::unique_ptr<Synchronizer> make_local_sgd(LocalSgdParts parts, LocalSgdPlan plan,
                                             const OuterStep& outer = {});

}  // namespace eqt::sync
