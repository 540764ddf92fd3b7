// SPDX-License-Identifier: Apache-2.0
// What local SGD does with the mean of a round.

#pragma once

#include <optional>

namespace eqt::train {

/// What a round does with the mean of the ranks' differences m, which is treated as a gradient:
/// z = momentum z + m; s = learning_rate z, with Nesterov learning_rate (m + momentum z); r -= s.
struct OuterStep {
  float learning_rate = 1, momentum = 0;
  bool nesterov = false;
  /// alpha: what a rank keeps of its model, x = alpha x + (1 - alpha) r. Unset: its whole progress
  /// since its difference was sent. After the run's last step x = r.
  std::optional<float> mixing = {};

  /// s, for one value. @param z updated; not read without momentum
  float of(float mean, float& z) const {
    if (momentum == 0) return learning_rate * mean;
    z = momentum * z + mean;
    return learning_rate * (nesterov ? mean + momentum * z : z);
  }
};

}  // namespace eqt::train
