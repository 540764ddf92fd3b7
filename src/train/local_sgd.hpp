// SPDX-License-Identifier: Apache-2.0
// Local SGD: ranks train alone and average their models every few steps.

#pragma once

#include <memory>
#include <span>

#include "comm/communicator.hpp"
#include "gossip/direction.hpp"
#include "train/divergence.hpp"
#include "train/synchronizer.hpp"

namespace eqt::train {

/// The steps that end with averaging the models.
struct LocalSgdPlan {
  StepId local_steps = 1;  // H: steps between averages; also after the last step of the run
  /// Post-local SGD (T. Lin et al., ICLR 2020, arXiv:1808.07217): averages in each of this many
  /// first steps, and in every H-th afterwards.
  StepId dense_steps = 0;
  StepId total_steps = 1;

  bool averages_after(StepId step) const {
    if (step < dense_steps || step + 1 == total_steps) return true;
    return (step + 1 - dense_steps) % local_steps == 0;
  }
  /// Averages made before `step`.
  StepId averages_before(StepId step) const {
    return step <= dense_steps ? step : dense_steps + (step - dense_steps) / local_steps;
  }
};

struct LocalSgdParts {
  comm::Communicator& comm;
  /// Averages `gradient` over ranks; its steps are the averages made so far.
  std::unique_ptr<Synchronizer> mean;
  gossip::Direction* direction = nullptr;  // null: the optimizer has momentum and weight decay
  std::span<float> parameters, gradient;
  const Layout& layout;              // of both
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
/// Quasi-global momentum uses the movement between two averages, divided by the sum of the learning
/// rates (T. Lin et al., ICML 2021, appendix: several local steps). It is equal on all ranks.
std::unique_ptr<Synchronizer> make_local_sgd(LocalSgdParts parts, const LocalSgdPlan& plan);

}  // namespace eqt::train
