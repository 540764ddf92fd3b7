// SPDX-License-Identifier: Apache-2.0
#include "forecast/board_speed.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/random.hpp"

namespace eqt::forecast {
namespace {

constexpr std::uint32_t kRadius = 0, kAngle = 1, kStalls = 2;  // indices of a step's random numbers

/// Returns a number in the open interval (0, 1).
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

/// Maps a uniform number to Poisson's distribution by the inverse distribution function.
int poisson(double mean, double uniform) {
  // exp(-mean) would be 0. So many differ from their mean by some hundredths.
  constexpr double kMany = 500;
  if (mean > kMany) return static_cast<int>(std::lround(mean));
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

/// Finds the quantile by bisection, to 1e-12. @pre 0 < probability < 1
double normal_quantile(double probability) {
  double low = -40, high = 40;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
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

double typical_factor(const BoardSpeed& speed) { return 1 / std::sqrt(1 + speed.cv * speed.cv); }

StepTime slowest_step_time(const BoardSpeed& speed, std::uint64_t seed, StepId step, Rank rank,
                           int ranks) {
  const RandomStream random(
      make_key(seed, step, static_cast<std::uint32_t>(rank), RandomPurpose::board_speed));
  const auto greatest = [&](std::uint32_t index) {
    // The largest double below 1 keeps quantiles finite.
    return std::min(std::pow(uniform(random, index), 1.0 / ranks), 1 - 0x1p-53);
  };
  StepTime time;
  time.factor = change_at(speed.changes, step);
  if (speed.cv > 0) {
    const double variance = std::log1p(speed.cv * speed.cv);
    time.factor *=
        std::exp(std::sqrt(variance) * normal_quantile(greatest(kRadius)) - variance / 2);
  }
  if (speed.stall_every > 0)
    time.stall_seconds = speed.stall_seconds * poisson(1 / speed.stall_every, greatest(kStalls));
  return time;
}

}  // namespace eqt::forecast
