// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/level_design.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "codec/entropy/elias.hpp"
#include "codec/entropy/huffman.hpp"
#include "codec/levels/ieee_math.hpp"
#include "codec/levels/level_table.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

double asinh_root(double x) { return ieee_asinh(std::sqrt(x)); }

// Integrals of 1, r, r^2 over [a, b] under the density of |N(0, sigma^2)|.
struct Moments {
  double m0 = 0, m1 = 0, m2 = 0;
};

// Gauss-Legendre with 8 points on intervals of at most sigma/2: relative error below 1e-15.
Moments half_normal_moments(double a, double b, double sigma) {
  constexpr std::array<double, 4> kNode = {0.1834346424956498, 0.5255324099163290,
                                           0.7966664774136267, 0.9602898564975363};
  constexpr std::array<double, 4> kWeight = {0.3626837833783620, 0.3137066458778873,
                                             0.2223810344533745, 0.1012285362903763};
  constexpr double kDensity = 0.797884560802865355879892119869;  // sqrt(2 / pi)
  b = std::min(b, 9 * sigma);                                    // mass beyond: below 1e-18
  Moments moments;
  if (a >= b) return moments;
  const int intervals = std::max(1, static_cast<int>(std::ceil(2 * (b - a) / sigma)));
  const double half = (b - a) / intervals / 2;
  for (int interval = 0; interval < intervals; ++interval) {
    const double middle = a + (2 * interval + 1) * half;
    for (std::size_t k = 0; k < 8; ++k) {
      const double r = middle + (k % 2 == 0 ? half : -half) * kNode[k / 2];
      const double z = r / sigma;
      const double mass = kWeight[k / 2] * half * kDensity / sigma * ieee_exp(-z * z / 2);
      moments.m0 += mass;
      moments.m1 += mass * r;
      moments.m2 += mass * r * r;
    }
  }
  return moments;
}

// E[omega length of the gap to the next nonzero] when each value is nonzero with probability p.
double expected_gap_bits(double p, std::size_t d) {
  // Gaps beyond 40 / p have probability below e^-40.
  const double limit = std::min(static_cast<double>(d), std::min(1e6, 40 / p));
  double bits = 0, none = 1;
  for (std::uint64_t k = 1; static_cast<double>(k) <= limit; ++k) {
    bits += omega_length(k) * p * none;
    none *= 1 - p;
  }
  return bits;
}

// Bits per value of Huffman's code for these probabilities.
double huffman_code_bits(std::span<const double> probability) {
  std::array<std::uint64_t, kMaxLevels> counts{};
  std::array<std::uint8_t, kMaxLevels> lengths{};
  const std::size_t symbols = probability.size();
  for (std::size_t i = 0; i < symbols; ++i) {
    counts[i] = static_cast<std::uint64_t>(probability[i] * 0x1p40);
  }
  huffman_lengths(std::span(counts).first(symbols), std::span(lengths).first(symbols));
  double bits = 0;
  for (std::size_t i = 0; i < symbols; ++i) bits += probability[i] * lengths[i];
  return bits;
}

// Returns Huffman's bits per value for a bucket of d values whose code covers only the indices up
// to the largest that occurs. It is the mean over that index.
double huffman_bucket_bits(std::span<const double> probability, std::size_t d) {
  double bits = 0, none_above = 1;
  for (std::size_t k = probability.size() - 1; k > 0 && none_above > 1e-12; --k) {
    const double absent = ieee_exp(-std::min(600.0, probability[k] * static_cast<double>(d)));
    if (absent < 1) {
      bits += none_above * (1 - absent) * huffman_code_bits(probability.first(k + 1));
    }
    none_above *= absent;
  }
  return bits + none_above * huffman_code_bits(probability.first(1));
}

// The minimiser of f on [low, high]. f may have several local minima and kinks, so a grid is
// searched first.
template <typename F>
double least_on_grid(F f, double low, double high, int points, int steps) {
  const auto grid = [&](int i) { return low + (high - low) * i / points; };
  int best = 0;
  double least = f(low);
  for (int i = 1; i <= points; ++i) {
    const double value = f(grid(i));
    if (value < least) {
      least = value;
      best = i;
    }
  }
  return golden_section(f, grid(std::max(best - 1, 0)), grid(std::min(best + 1, points)), steps);
}

// The smallest p whose smallest level stays above LevelTable's limit of 2^-60.
double lowest_p(int n) { return std::max(0.02, ieee_exp(-59 * kLn2 / (n - 1))); }

// Natural logarithms of mu, from uniform levels to far more than any bucket size needs.
constexpr double kLowestLogMu = -4, kHighestLogMu = 20;

// Returns the bits per value of rANS for a bucket of d values: entropy, a byte for each frequency
// up to the largest index that occurs, and 19 bits per state less the signs in the states
// (rans.hpp).
double rans_bucket_bits(std::span<const double> probability, std::size_t d) {
  const auto count = static_cast<double>(d);
  double entropy = 0, frequencies = 0, above = 0;
  for (std::size_t k = probability.size(); k-- > 0;) {
    const double p = probability[k];
    above += p;
    if (p > 0) entropy -= p * ieee_log(p) / kLn2;
    if (k > 0) frequencies += 8 * (1 - ieee_exp(-std::min(600.0, above * count)));
  }
  const double lanes = std::min(32.0, count);
  const double held = std::min(16 * lanes, (1 - probability[0]) * count);
  return entropy + (5 + frequencies + 19 * lanes - held) / count;
}

double model_sigma(std::size_t d, Norm norm) {
  const auto count = static_cast<double>(std::max<std::size_t>(d, 2));
  return norm == Norm::l2 ? 1 / std::sqrt(count) : 1 / std::sqrt(2 * ieee_log(count));
}

}  // namespace

double sinh_worst_case_l2(int n, std::size_t d, double theta) {
  const double half = ieee_sinh(theta / 2), whole = ieee_sinh(n * theta);
  return half * half * (1 + static_cast<double>(d) / (whole * whole));
}

double optimal_theta(int n, std::size_t d, Norm norm) {
  const auto count = static_cast<double>(d);
  if (norm == Norm::max) return asinh_root(count - 1) / n;
  return golden_section([&](double theta) { return sinh_worst_case_l2(n, d, theta); }, 1e-9,
                        2 * asinh_root(count) / n + 1);
}

double optimal_p(int n, std::size_t d, Norm norm) {
  if (n == 1) return 0.5;  // the only level is 1
  const auto worst = [&](double p) {
    return worst_case_variance(exponential_levels(n, p), d, norm);
  };
  return least_on_grid(worst, lowest_p(n), 0.999, 64, 50);
}

double optimal_mu(int n, std::size_t d, Norm norm) {
  const auto worst = [&](double log_mu) {
    return worst_case_variance(mulaw_levels(n, ieee_exp(log_mu)), d, norm);
  };
  return ieee_exp(least_on_grid(worst, kLowestLogMu, kHighestLogMu, 64, 50));
}

double optimal_elasticity(LevelFamily family, int n, std::size_t d, Norm norm) {
  EQT_CHECK(family != LevelFamily::general, "a general table has no elasticity");
  if (family == LevelFamily::exponential) return optimal_p(n, d, norm);
  if (family == LevelFamily::mulaw) return optimal_mu(n, d, norm);
  return optimal_theta(n, d, norm);
}

GaussianCost gaussian_cost(std::span<const double> levels, std::size_t d, Norm norm) {
  const double sigma = model_sigma(d, norm);
  const double inside = half_normal_moments(0, 1, sigma).m0;
  std::array<double, kMaxLevels> storage{};
  const auto probability = std::span(storage).first(levels.size());
  double variance = 0;
  for (std::size_t j = 0; j + 1 < levels.size(); ++j) {
    const double a = levels[j], b = levels[j + 1];
    const Moments m = half_normal_moments(a, b, sigma);
    // E[(b - r)(r - a)], and the parts that are rounded up and down.
    variance += (-m.m2 + (a + b) * m.m1 - a * b * m.m0) / inside;
    const double up = (m.m1 - a * m.m0) / (b - a) / inside;
    probability[j + 1] += up;
    probability[j] += m.m0 / inside - up;
  }
  GaussianCost cost;
  cost.variance = variance / (sigma * sigma);
  const double nonzero = 1 - probability[0];
  const auto count = static_cast<double>(d);
  double index_bits = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    cost.dense_bits += probability[i] * (omega_length(i + 1) + (i > 0 ? 1 : 0));
    if (i > 0) index_bits += probability[i] * omega_length(i);
  }
  cost.sparse_bits = nonzero * (expected_gap_bits(nonzero, d) + 1) + index_bits +
                     omega_length(static_cast<std::uint64_t>(nonzero * count) + 1) / count;
  cost.huffman_bits = huffman_bucket_bits(probability, d) + nonzero +
                      4 * static_cast<double>(levels.size()) / count;
  cost.rans_bits = rans_bucket_bits(probability, d) + nonzero;
  return cost;
}

double GaussianCost::bits(Coding coding, std::size_t d) const {
  const double elias = std::min(sparse_bits, dense_bits);
  const double body = coding == Coding::elias     ? elias
                      : coding == Coding::huffman ? huffman_bits
                      : coding == Coding::rans    ? rans_bits
                                                  : std::min({elias, huffman_bits, rans_bits});
  return body + 34 / static_cast<double>(d);  // norm and mode
}

double cheapest_elasticity(LevelFamily family, int n, std::size_t d, Norm norm, Coding coding) {
  const auto total = [&](double elasticity) {
    const GaussianCost cost = gaussian_cost(make_levels(family, n, elasticity), d, norm);
    return (1 + cost.variance) * cost.bits(coding, d);
  };
  // The cost has kinks where the best code changes.
  constexpr int kGrid = 96, kSteps = 30;
  if (family == LevelFamily::mulaw) {
    return ieee_exp(least_on_grid([&](double log_mu) { return total(ieee_exp(log_mu)); },
                                  kLowestLogMu, kHighestLogMu, kGrid, kSteps));
  }
  if (family == LevelFamily::exponential) {
    return n == 1 ? 0.5 : least_on_grid(total, lowest_p(n), 0.995, kGrid, kSteps);
  }
  return least_on_grid(total, 0, 1.5 * optimal_theta(n, d, norm), kGrid, kSteps);
}

namespace {

constexpr std::string_view kTheta = "theta of sinh levels";
constexpr LevelFamilyRow kFamilies[] = {
    {.value = LevelFamily::sinh,
     .name = "sinh",
     .about = "sinh(j theta) / sinh(n theta)",
     .elasticity = kTheta,
     .most_elasticity = 20,
     .make = sinh_levels},
    {.value = LevelFamily::exponential,
     .name = "exponential",
     .about = "p^(n - j)",
     .elasticity = "the ratio of neighbouring levels",
     .most_elasticity = 1,
     .most_is_excluded = true,
     .make = exponential_levels},
    {.value = LevelFamily::mulaw,
     .name = "mulaw",
     .about = "((1 + mu)^(j / n) - 1) / mu",
     .elasticity = "mu of mulaw levels",
     .most_elasticity = 1e9,
     .make = mulaw_levels},
    {.value = LevelFamily::general,
     .name = "general",
     .about = "compressor.table",
     .elasticity = ""},
    {.value = LevelFamily::adaptive,
     .name = "adaptive",
     .about = "sinh at first, then fitted to the run's gradients",
     .elasticity = kTheta,
     .most_elasticity = 20,
     .make = sinh_levels}};

}  // namespace

std::span<const LevelFamilyRow> names_of(LevelFamily) { return kFamilies; }

Levels make_levels(LevelFamily family, int n, double elasticity) {
  const LevelFamilyRow& row = row_of(family);
  EQT_CHECK(row.make != nullptr, "{} levels have no elasticity", row.name);
  return row.make(n, elasticity);
}

}  // namespace eqt::codec
