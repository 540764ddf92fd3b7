// SPDX-License-Identifier: Apache-2.0
// The direction that a decentralised algorithm computes from a rank's gradient.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "core/saved_state.hpp"

namespace eqt::sync {

/// Turns each step's gradient into the direction that plain SGD takes, x -= rate * direction, and
/// is updated from the change of the model in the step, including mixing. Momentum and weight decay
/// are part of the direction; the optimizer applies neither.
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

struct QuasiGlobalOptions {
  float beta = 0.9f;  // weight of the momentum in the direction
  float mu = 0.9f;    // decay of the running mean of the movement
  bool nesterov = false;
  float weight_decay = 0;
};
/// Quasi-global momentum (Lin et al., ICML 2021, arXiv:2102.04761, algorithm 1): momentum of the
/// mean model's movement, which a rank estimates from its own model before and after mixing.
///   b = beta mh + g;  direction = b, or g + beta b with Nesterov
///   mh = mu mh + (1 - mu) (before - after) / rate
/// @throws Error{usage} when a coefficient is out of range
std::unique_ptr<Direction> make_quasi_global_momentum(std::size_t count,
                                                      const QuasiGlobalOptions& options);

/// D2 (Tang et al., ICML 2018, arXiv:1803.07068, algorithm 1) in a form that is correct when the
/// rate changes: direction = D + g - g_prev, D = (before - after) / rate of the step before. After
/// a step at rate 0 it starts again. Needs symmetric doubly stochastic weights with all eigenvalues
/// above -1/3.
std::unique_ptr<Direction> make_d2(std::size_t count, float weight_decay);

/// Gradient tracking (Lu et al. 2019, arXiv:1909.05844, algorithm GNSD, adapt-then-combine): mixes
/// y, an estimate of the mean gradient, besides the model: direction = y = mixed y + g - g_prev.
std::unique_ptr<Direction> make_gradient_tracking(std::size_t count, float weight_decay);

}  // namespace eqt::sync
