// SPDX-License-Identifier: Apache-2.0
#include "theory/variance.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "codec/levels/level_codec.hpp"
#include "codec/levels/level_design.hpp"
#include "codec/levels/levels.hpp"
#include "core/error.hpp"

namespace eqt::theory {
namespace {

double sum_of(const codec::Levels& levels, std::size_t j) { return levels[j] + levels[j + 1]; }
double product_of(const codec::Levels& levels, std::size_t j) { return levels[j] * levels[j + 1]; }

/// The cell whose conjugate tau^2 / (4 mu) - l_j l_(j+1) is largest.
std::size_t worst_cell(const codec::Levels& levels, double mu) {
  std::size_t worst = 0;
  double largest = -1;
  for (std::size_t j = 0; j + 1 < levels.size(); ++j) {
    const double tau = sum_of(levels, j);
    const double value = tau * tau / (4 * mu) - product_of(levels, j);
    if (value > largest) {
      largest = value;
      worst = j;
    }
  }
  return worst;
}

AdversarialVector of_max_norm(const LevelScheme& scheme) {
  const std::size_t d = scheme.bucket_size;
  const double e = codec::worst_case_variance(scheme.levels, d, scheme.norm);
  const double tau = sum_of(scheme.levels, worst_cell(scheme.levels, 1 + e));
  return {.heads = 1, .head = 1, .bodies = d - 1, .body = std::min(1.0, tau / (2 * (1 + e)))};
}

/// k values in cell a and d - k in cell b. On the ellipse k x^2 + (d - k) y^2 = 1 the sum of their
/// parabolas is largest where x : y = tau_a : tau_b, and is then sqrt(S) - k P_a - (d - k) P_b - 1
/// with S = k tau_a^2 + (d - k) tau_b^2. The true variance is no smaller: it is the largest of all
/// cells' parabolas.
class TwoCells {
 public:
  TwoCells(const codec::Levels& levels, std::size_t a, std::size_t b, double d)
      : tau_a_(sum_of(levels, a)),
        tau_b_(sum_of(levels, b)),
        product_a_(product_of(levels, a)),
        product_b_(product_of(levels, b)),
        d_(d) {}

  double squares(double k) const { return k * tau_a_ * tau_a_ + (d_ - k) * tau_b_ * tau_b_; }
  double value(double k) const {
    return std::sqrt(squares(k)) - k * product_a_ - (d_ - k) * product_b_ - 1;
  }
  /// The real k with the largest value(), which is concave.
  double best() const {
    const double slope = tau_a_ * tau_a_ - tau_b_ * tau_b_;
    const double root = slope / (2 * (product_a_ - product_b_));
    return std::clamp((root * root - d_ * tau_b_ * tau_b_) / slope, 0.0, d_);
  }
  double head(double k) const { return tau_a_ / std::sqrt(squares(k)); }
  double body(double k) const { return tau_b_ / std::sqrt(squares(k)); }

 private:
  double tau_a_, tau_b_, product_a_, product_b_, d_;
};

AdversarialVector of_l2_norm(const LevelScheme& scheme) {
  const auto d = static_cast<double>(scheme.bucket_size);
  const std::size_t cells = scheme.levels.size() - 1;
  // Starts with all values in one cell, which are equal.
  AdversarialVector worst{
      .heads = 0, .head = 0, .bodies = scheme.bucket_size, .body = 1 / std::sqrt(d)};
  double largest = d * rounding_variance(scheme.levels, worst.body);
  for (std::size_t a = 1; a < cells; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const TwoCells split(scheme.levels, a, b, d);
      const double real = split.best();
      for (const double k : {std::floor(real), std::ceil(real)}) {
        if (k < 1 || k > d || split.value(k) <= largest) continue;
        largest = split.value(k);
        const auto heads = static_cast<std::size_t>(k);
        worst = {.heads = heads,
                 .head = split.head(k),
                 .bodies = scheme.bucket_size - heads,
                 .body = split.body(k)};
      }
    }
  }
  return worst;
}

double squares_of(std::span<const float> values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return squares;
}

}  // namespace

int LevelScheme::fixed_bits() const {
  return 1 + static_cast<int>(std::bit_width(levels.size() - 1));
}

std::optional<codec::Levels> levels_of(const codec::Compressor& compressor) {
  const codec::LevelRounding* const rounding = compressor.level_rounding();
  if (rounding == nullptr) return {};
  codec::Levels levels = rounding->levels();
  for (double& level : levels) level = static_cast<double>(static_cast<float>(level));
  return levels;
}

LevelBounds level_bounds(const LevelScheme& scheme) {
  EQT_CHECK(scheme.levels.size() >= 2 && scheme.bucket_size >= 1, "{} levels, {} values",
            scheme.levels.size(), scheme.bucket_size);
  LevelBounds bounds;
  for (std::size_t j = 1; j + 1 < scheme.levels.size(); ++j)
    bounds.ratio = std::max(bounds.ratio, scheme.levels[j + 1] / scheme.levels[j]);
  bounds.smallest = scheme.levels[1] * std::sqrt(static_cast<double>(scheme.bucket_size));
  bounds.phi = codec::phi(bounds.smallest);
  bounds.theorem2 = codec::theorem2_variance(scheme.levels, scheme.bucket_size, scheme.norm);
  bounds.worst_case = codec::worst_case_variance(scheme.levels, scheme.bucket_size, scheme.norm);
  return bounds;
}

double rounding_variance(const codec::Levels& levels, double r) {
  const std::size_t j = codec::find_cell(levels, r).lower;
  return (levels[j + 1] - r) * (r - levels[j]);
}

AdversarialVector adversarial_vector(const LevelScheme& scheme) {
  AdversarialVector v = scheme.norm == codec::Norm::max ? of_max_norm(scheme) : of_l2_norm(scheme);
  const auto heads = static_cast<double>(v.heads), bodies = static_cast<double>(v.bodies);
  const double variance = heads * rounding_variance(scheme.levels, std::min(v.head, 1.0)) +
                          bodies * rounding_variance(scheme.levels, std::min(v.body, 1.0));
  v.ratio = variance / (heads * v.head * v.head + bodies * v.body * v.body);
  return v;
}

std::vector<float> AdversarialVector::values() const {
  std::vector<float> all(heads + bodies);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto magnitude = static_cast<float>(i < heads ? head : body);
    all[i] = i % 2 == 0 ? magnitude : -magnitude;
  }
  return all;
}

VarianceSums& VarianceSums::operator+=(const VarianceSums& other) {
  squares += other.squares;
  exact += other.exact;
  worst_case += other.worst_case;
  theorem2 += other.theorem2;
  nonzeros += other.nonzeros;
  values += other.values;
  return *this;
}

VarianceSums level_variance(const LevelScheme& scheme, std::span<const float> values) {
  VarianceSums sums;
  std::map<std::size_t, LevelBounds> bounds;  // by bucket length: at most two
  each_bucket(values, scheme.bucket_size, [&](std::span<const float> bucket) {
    auto [found, is_new] = bounds.try_emplace(bucket.size());
    if (is_new) {
      LevelScheme shorter = scheme;
      shorter.bucket_size = bucket.size();
      found->second = level_bounds(shorter);
    }
    const double squares = squares_of(bucket);
    sums.squares += squares;
    sums.exact += squares * codec::exact_variance(scheme.levels, bucket, scheme.norm);
    sums.worst_case += squares * found->second.worst_case;
    sums.theorem2 += squares * found->second.theorem2;
    sums.nonzeros += codec::expected_nonzeros(scheme.levels, bucket, scheme.norm);
  });
  sums.values = values.size();
  return sums;
}

VarianceSums raw_variance(std::span<const float> values) {
  VarianceSums sums;
  sums.squares = squares_of(values);
  sums.values = values.size();
  for (const float v : values) sums.nonzeros += v != 0 ? 1 : 0;
  return sums;
}

double natural_variance(std::span<const float> values) {
  double variance = 0;
  for (const double v : values) {
    if (v == 0) continue;
    const double magnitude = std::abs(v);
    const double below = std::ldexp(1.0, std::ilogb(magnitude));
    variance += (2 * below - magnitude) * (magnitude - below);
  }
  const double squares = squares_of(values);
  return squares > 0 ? variance / squares : 0;
}

WorstCaseRow worst_case_row(int bits, std::size_t bucket_size) {
  using codec::Norm;
  EQT_CHECK(bits >= 2 && bits <= 8 && bucket_size >= 2, "{} bits, {} values", bits, bucket_size);
  const int n = (1 << (bits - 1)) - 1;
  const auto d = static_cast<double>(bucket_size);
  const auto worst = [&](const codec::Levels& levels, Norm norm) {
    return codec::worst_case_variance(levels, bucket_size, norm);
  };
  const codec::Levels uniform = codec::uniform_levels(n),
                      halves = codec::exponential_levels(n, 0.5);
  WorstCaseRow row{.bits = bits, .levels = n, .bucket_size = bucket_size};
  row.theta_l2 = codec::optimal_theta(n, bucket_size, Norm::l2);
  row.elastiquant_l2 = codec::sinh_worst_case_l2(n, bucket_size, row.theta_l2);
  row.elastiquant_l2_dual = worst(codec::sinh_levels(n, row.theta_l2), Norm::l2);
  row.theta_max = codec::optimal_theta(n, bucket_size, Norm::max);
  row.elastiquant_max = std::pow(std::sinh(row.theta_max / 2), 2);
  row.elastiquant_max_fixed_point = worst(codec::sinh_levels(n, row.theta_max), Norm::max);
  row.qsgd = codec::phi(std::sqrt(d) / n);
  row.qsgd_dual = worst(uniform, Norm::l2);
  row.qsgd_v = (std::sqrt(1 + (d - 1) / (double{1} * n * n)) - 1) / 2;
  row.qsgd_v_fixed_point = worst(uniform, Norm::max);
  row.nuqsgd = worst(halves, Norm::l2);
  row.nuqsgd_max = worst(halves, Norm::max);
  row.nuqsgd_theorem = codec::theorem2_variance(halves, bucket_size, Norm::l2);
  row.best_p = codec::optimal_p(n, bucket_size, Norm::l2);
  row.exponential = worst(codec::exponential_levels(n, row.best_p), Norm::l2);
  return row;
}

}  // namespace eqt::theory
