// SPDX-License-Identifier: Apache-2.0
#include "model/board_speed.hpp"

#include <cmath>
#include <numbers>

#include "core/random.hpp"

namespace eqt::model {
namespace {

constexpr std::uint32_t kRadius = 0, kAngle = 1, kStalls = 2;  // indices of a step's random numbers

/// In the open interval (0, 1).
double uniform(const RandomStream& random, std::uint32_t index) {
  return (random.bits(index) + 0.5) * 0x1p-32;
}

/// exp(s z - s^2 / 2) with z standard normal has the mean 1 and the variance exp(s^2) - 1.
double lognormal(double cv, const RandomStream& random) {
  if (cv == 0) return 1;
  const double variance = std::log1p(cv * cv);
  // G. Box, M. Muller, 1958.
  const double normal = std::sqrt(-2 * std::log(uniform(random, kRadius))) *
                        std::cos(2 * std::numbers::pi * uniform(random, kAngle));
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}

/// By the inverse distribution function.
int poisson(double mean, double uniform) {
  double probability = std::exp(-mean), sum = probability;
  int count = 0;
  // The sum may end below 1 by rounding.
  while (uniform > sum && probability > 0) {
    ++count;
    probability *= mean / count;
    sum += probability;
  }
  return count;
}

double change_at(const std::vector<SpeedChange>& changes, StepId step) {
  StepId since = 0;
  double factor = 1;
  for (const SpeedChange& change : changes) {
    if (change.step > step || change.step < since) continue;
    since = change.step;
    factor = change.factor;
  }
  return factor;
}

}  // namespace

StepTime step_time(const BoardSpeed& speed, std::uint64_t seed, StepId step, Rank rank) {
  const RandomStream random(
      make_key(seed, step, static_cast<std::uint32_t>(rank), RandomPurpose::board_speed));
  StepTime time;
  time.factor = change_at(speed.changes, step) * lognormal(speed.cv, random);
  if (speed.stall_every > 0)
    time.stall_seconds =
        speed.stall_seconds * poisson(1 / speed.stall_every, uniform(random, kStalls));
  return time;
}

}  // namespace eqt::model
