// SPDX-License-Identifier: Apache-2.0
// Local SGD: ranks train alone and average their models every few steps, at once or later.

#pragma once

#include <memory>
#include <span>

#include "comm/communicator.hpp"
#include "sync/direction.hpp"
#include "sync/divergence.hpp"
#include "sync/gradient_averaging.hpp"
#include "sync/local/local_sgd_plan.hpp"
#include "sync/local/outer_step.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

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
