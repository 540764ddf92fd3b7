// SPDX-License-Identifier: Apache-2.0
#include "planner/compression_noise.hpp"

#include "adaptation/gradient_noise.hpp"

namespace eqt::planner {

double compression_noise(double variance, int quantisations, int ranks, double samples,
                         double noise_scale) {
  const double batch_noise = noise_scale / samples;
  const double square = 1 + ranks * batch_noise;
  return adaptation::added_noise({.square = square, .error = variance * square}, 1, batch_noise,
                                 ranks, quantisations) /
         batch_noise;
}

double steps_to_target(double steps_at_1, double noise, double samples, double noise_scale) {
  return steps_at_1 * (1 + (1 + noise) * noise_scale / samples);
}

}  // namespace eqt::planner
