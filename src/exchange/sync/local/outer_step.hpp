// SPDX-License-Identifier: Apache-2.0
// What local SGD does with the mean of a round.

#pragma once

#include <optional>

namespace eqt::sync {

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

}  // namespace eqt::sync
