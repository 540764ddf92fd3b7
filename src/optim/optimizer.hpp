// SPDX-License-Identifier: Apache-2.0
// The parameter update, over flat buffers.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/layout.hpp"
#include "core/saved_state.hpp"

namespace eqt::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update of `parameters` by the mean gradient at learning rate `rate`.
  virtual void step(std::span<float> parameters, std::span<const float> gradient, float rate) = 0;
  /// Visits the momentum. @param models rule for converting models and momentum
  virtual void visit_state(StateVisitor& visitor, Across models) = 0;
};

/// SGD as torch.optim.SGD with dampening 0: g += wd p; m = mu m + g; p -= rate (g + mu m | m).
struct SgdOptions {
  float momentum = 0.9f;
  bool nesterov = false;
  float weight_decay = 0;
  /// Ranges of the flat buffer whose gradient already includes momentum (the compressed slices of
  /// DGC). There the momentum buffer accumulates only the weight decay. In any order, without
  /// overlap.
  std::vector<TensorSlice> momentum_corrected;
};

/// @throws Error{usage} when a coefficient is out of range or Nesterov's step has no momentum
std::unique_ptr<Optimizer> make_sgd(std::size_t count, const SgdOptions& options);

}  // namespace eqt::optim
