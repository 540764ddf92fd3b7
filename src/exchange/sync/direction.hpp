// SPDX-License-Identifier: Apache-2.0
// The direction that a decentralised algorithm computes from a rank's gradient.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "core/layout.hpp"
#include "core/saved_state.hpp"

namespace eqt::sync {

/// Turns each step's gradient into the direction that plain SGD takes, x -= rate * direction, and
/// is updated from the change of the model in the step, including mixing. Momentum and weight decay
/// are part of the direction; the optimizer applies neither. A range whose rule has a rate factor
/// moves at the rate times that factor, by which its movement is divided as well.
class Direction {
 public:
  virtual ~Direction() = default;
  virtual std::string_view name() const noexcept = 0;
  /// @param model where the gradient was computed @param gradient in: gradient of the loss; out:
  /// direction
  virtual void direct(std::span<const float> model, std::span<float> gradient) = 0;
  /// Called after the step at `rate`, which changed the model from `before` to `after`.
  virtual void observe(std::span<const float> before, std::span<const float> after, float rate) = 0;
  /// A flat buffer that is mixed like the model, in the same round; empty if there is none.
  virtual std::span<float> mixed() { return {}; }
  virtual void visit_state(StateVisitor& visitor) = 0;
};

/// Returns the rules of the update that applies a direction: rates without momentum and decay.
UpdateRules rates_alone(UpdateRules rules);

struct QuasiGlobalOptions {
  float momentum = 0.9f;  // beta and mu of ranges whose rule has none
  bool nesterov = false;
};
/// Quasi-global momentum (Lin et al., ICML 2021, arXiv:2102.04761, algorithm 1): momentum of the
/// mean model's movement, which a rank estimates from its own model before and after mixing.
///   b = beta mh + g;  direction = b, or g + beta b with Nesterov
///   mh = mu mh + (1 - mu) (before - after) / rate,  mu = beta
/// @throws Error{usage} when a momentum is out of range
std::unique_ptr<Direction> make_quasi_global_momentum(const UpdateRules& rules,
                                                      const QuasiGlobalOptions& options);

/// D2 (Tang et al., ICML 2018, arXiv:1803.07068, algorithm 1) in a form that is correct when the
/// rate changes: direction = D + g - g_prev, D = (before - after) / rate of the step before. After
/// a step at rate 0 it starts again. It needs symmetric doubly stochastic weights with all
/// eigenvalues above -1/3, and rules without momentum.
std::unique_ptr<Direction> make_d2(const UpdateRules& rules);

/// Gradient tracking (Lu et al. 2019, arXiv:1909.05844, algorithm GNSD, adapt-then-combine): mixes
/// y, an estimate of the mean gradient, besides the model: direction = y = mixed y + g - g_prev.
/// It needs rules without momentum.
std::unique_ptr<Direction> make_gradient_tracking(const UpdateRules& rules);

}  // namespace eqt::sync
