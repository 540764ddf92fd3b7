// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/adaptive_levels.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/levels/ieee_math.hpp"

namespace eqt::codec {
namespace {

// The paper runs 30 sweeps; a sweep that gains less than this share of Psi ends the descent.
constexpr int kMaxSweeps = 60;
constexpr int kFirstSweeps = 10;  // from each start; only the best is continued
constexpr double kMinGain = 1e-6;

double cell_variance(const NormalMixture& mixture, double a, double b) noexcept {
  const CellMoments m = mixture.moments(a, b);
  return (b - a) * m.first - m.second;
}

// Returns Psi.
double descend(const NormalMixture& mixture, Levels& levels, int most_sweeps) {
  double before = expected_variance(mixture, levels);
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    sweep_levels(mixture, levels);
    const double after = expected_variance(mixture, levels);
    if (after >= before * (1 - kMinGain)) return after;
    before = after;
  }
  return before;
}

Levels quantile_levels(const NormalMixture& mixture, int n) {
  Levels levels(static_cast<std::size_t>(n) + 1);
  for (int j = 1; j < n; ++j) {
    levels[static_cast<std::size_t>(j)] = mixture.quantile(static_cast<double>(j) / n);
  }
  levels.back() = 1;
  return levels;
}

}  // namespace

bool fp32_tells_apart(std::span<const double> levels) noexcept {
  if (!(levels[1] >= 0x1p-59)) return false;
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) {
    if (!(levels[j + 1] > levels[j] * (1 + 0x1p-13))) return false;
  }
  return true;
}

double expected_variance(const NormalMixture& mixture, std::span<const double> levels) noexcept {
  double variance = 0;
  for (std::size_t j = 0; j + 1 < levels.size(); ++j) {
    variance += cell_variance(mixture, levels[j], levels[j + 1]);
  }
  return variance;
}

double best_between(const NormalMixture& mixture, double a, double c, double guess) noexcept {
  const double above = mixture.moments(a, c).first / (c - a);
  double low = a, high = c, b = guess;
  if (!(above > 1e-300)) return guess;
  // Newton's method for mass(b, c) = above, inside a bracket; a step outside it is replaced by
  // bisection.
  for (int i = 0; i < 100 && low < high; ++i) {
    const auto [mass, density] = mixture.mass_above(b, c);
    const double excess = mass - above;
    (excess > 0 ? low : high) = b;
    double next = density > 0 ? b + excess / density : low;
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (std::abs(next - b) <= 1e-15 * b) return next;
    b = next;
  }
  return b;
}

double level_slope(const NormalMixture& mixture, double a, double b, double c) noexcept {
  const CellMoments below = mixture.moments(a, b), above = mixture.moments(b, c);
  return below.first - ((c - b) * above.mass - above.first);
}

void sweep_levels(const NormalMixture& mixture, std::span<double> levels) noexcept {
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) {
    levels[j] = best_between(mixture, levels[j - 1], levels[j + 1], levels[j]);
  }
}

void gradient_sweep_levels(const NormalMixture& mixture, std::span<double> levels,
                           double rate) noexcept {
  for (std::size_t j = 1; j + 1 < levels.size(); ++j) {
    const double slope = level_slope(mixture, levels[j - 1], levels[j], levels[j + 1]);
    const double room = std::min(levels[j] - levels[j - 1], levels[j + 1] - levels[j]);
    levels[j] -= std::copysign(std::min(rate * std::abs(slope), room / 2), slope);
  }
}

Levels adapted_levels(const NormalMixture& mixture, const Levels& start) {
  const int n = static_cast<int>(start.size()) - 1;
  Levels best;
  double least = 0;
  for (Levels levels : {start, quantile_levels(mixture, n), uniform_levels(n),
                        exponential_levels(n, std::max(0.5, ieee_exp(-58 * kLn2 / n)))}) {
    const double variance = descend(mixture, levels, kFirstSweeps);
    if (best.empty() || variance < least) {
      best = levels;
      least = variance;
    }
  }
  least = descend(mixture, best, kMaxSweeps - kFirstSweeps);
  const bool better = least < expected_variance(mixture, start) && fp32_tells_apart(best);
  return better ? best : start;
}

double multiplier_variance(const NormalMixture& mixture, int n, double p, Centre centre) noexcept {
  const int cells = centre == Centre::cell ? n : n - 1;
  double variance = 0, high = 1;
  for (int j = 0; j < cells; ++j, high *= p) variance += cell_variance(mixture, high * p, high);
  if (centre == Centre::zero_level) return variance + cell_variance(mixture, 0, high);
  const CellMoments m = mixture.moments(0, high);
  return variance + high * high * m.mass - m.second;
}

double multiplier_slope(const NormalMixture& mixture, int n, double p, Centre centre) noexcept {
  const int cells = centre == Centre::cell ? n : n - 1;
  double slope = 0, high = 1;  // high = p^j, the upper end of cell j, whose lower end is p^(j+1)
  for (int j = 0; j < cells; ++j, high *= p) {
    const CellMoments m = mixture.moments(high * p, high);
    // d/dp of (p^j - r)(r - p^(j+1)), with r = p^(j+1) + t.
    const double high_slope = j * high / p, low_slope = (j + 1) * high;
    slope += high_slope * m.first - low_slope * ((high - high * p) * m.mass - m.first);
  }
  const CellMoments m = mixture.moments(0, high);
  const double end_slope = cells * high / p;
  return slope + (centre == Centre::cell ? 2 * high * end_slope * m.mass : end_slope * m.first);
}

double adapted_multiplier(const NormalMixture& mixture, int n, double previous) {
  if (n == 1) return previous;  // the only level is 1
  const auto variance = [&](double p) {
    return multiplier_variance(mixture, n, p, Centre::zero_level);
  };
  const double lowest = std::max(0.02, ieee_exp(-58 * kLn2 / (n - 1)));
  std::array<double, 10> starts = {lowest, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 0.999};
  for (double& p : starts) p = std::max(p, lowest);
  std::size_t best = 0;
  for (std::size_t i = 1; i < starts.size(); ++i) {
    if (variance(starts[i]) < variance(starts[best])) best = i;
  }
  const double p = golden_section(variance, starts[best - std::min<std::size_t>(best, 1)],
                                  starts[std::min(best + 1, starts.size() - 1)], 50);
  return variance(p) < variance(previous) ? p : previous;
}

}  // namespace eqt::codec
