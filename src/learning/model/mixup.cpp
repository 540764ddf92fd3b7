// SPDX-License-Identifier: Apache-2.0
#include "model/mixup.hpp"

#include <cmath>

#include "core/gamma.hpp"

namespace eqt::model {

double draw_mixup_share(double alpha, const RandomKey& key) {
  // Streams of dropout have the same key, so this one has a seed of its own.
  constexpr std::uint64_t kAside = 0x6D6978757000;
  RandomKey own = key;
  own.run_seed = mix64(key.run_seed ^ kAside);
  RandomSequence draws(own);
  // X / (X + Y) of two draws of Gamma(alpha, 1) is one of Beta(alpha, alpha).
  const double first = log_gamma_draw(alpha, draws), second = log_gamma_draw(alpha, draws);
  return 1 / (1 + std::exp(second - first));
}

}  // namespace eqt::model
