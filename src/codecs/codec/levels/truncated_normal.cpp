// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/truncated_normal.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include "codec/levels/ieee_math.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr double kInverseRootTwoPi = 0.398942280401432677939946059934;
constexpr double kFarthest = 38;  // e^(-38^2 / 2) is about the least normal double

// Mills' ratio, mass above x / density at x, from its definition.
double mills_ratio(double x) noexcept {
  if (x < 2.5) {
    // Phi(x) - 1/2 = phi(x) (x + x^3/3 + x^5/(3*5) + ...): positive terms only.
    double sum = x, term = x;
    for (int k = 3; term > 1e-17 * sum; k += 2) {
      term *= x * x / k;
      sum += term;
    }
    return 0.5 / (kInverseRootTwoPi * ieee_exp(-x * x / 2)) - sum;
  }
  // Laplace's continued fraction, 1/(x + 1/(x + 2/(x + ...))), from its tail.
  double fraction = x;
  for (int k = 12 + static_cast<int>(500 / (x * x)); k > 0; --k) fraction = x + k / fraction;
  return 1 / fraction;
}

// The ratio at multiples of a step, and its Taylor series between them. Fitting levels spends most
// of its time in the tail.
class MillsTable {
 public:
  MillsTable() noexcept {
    for (std::size_t i = 0; i < value_.size(); ++i) {
      value_[i] = mills_ratio(static_cast<double>(i) / kPerUnit);
    }
  }
  double at(double x) const noexcept {
    const auto i = static_cast<std::size_t>(x * kPerUnit + 0.5);
    const double node = static_cast<double>(i) / kPerUnit, h = x - node;
    // R' = x R - 1 and R^(k+1) = x R^(k) + k R^(k-1). |h| <= 1/32: the tenth term is below 1e-17.
    double before = value_[i], derivative = node * before - 1;
    double sum = before, factor = h;
    for (int k = 1; k < 10; ++k) {
      sum += factor * derivative;
      const double next = node * derivative + k * before;
      before = derivative;
      derivative = next;
      factor *= h / (k + 1);
    }
    return sum;
  }

 private:
  static constexpr int kPerUnit = 16;
  std::array<double, static_cast<std::size_t>(kFarthest) * kPerUnit + 2> value_;
};

// Phi(high) - Phi(low), from the tails, so that nothing cancels if both are on one side.
double mass_between(double low, double high, const NormalTail& at_low,
                    const NormalTail& at_high) noexcept {
  if (low >= 0) return at_low.above - at_high.above;
  if (high <= 0) return at_high.above - at_low.above;
  return 1 - at_low.above - at_high.above;
}

CellMoments component_moments(const NormalComponent& component, double a, double b) noexcept {
  const double sigma = component.deviation;
  const double low = (a - component.mean) / sigma, high = (b - component.mean) / sigma;
  const NormalTail at_low = normal_tail(std::abs(low)), at_high = normal_tail(std::abs(high));
  const double mass = mass_between(low, high, at_low, at_high);
  const double first = at_low.density - at_high.density - low * mass;
  const double second =
      (1 + low * low) * mass - low * at_low.density + (2 * low - high) * at_high.density;
  return {mass, sigma * first, sigma * sigma * second};
}

}  // namespace

NormalTail normal_tail(double x) noexcept {
  if (x > kFarthest) return {};
  const double density = kInverseRootTwoPi * ieee_exp(-x * x / 2);
  static const MillsTable mills;
  return {density, density * mills.at(x)};
}

NormalMixture::NormalMixture(std::vector<NormalComponent> components)
    : components_(std::move(components)) {
  double total = 0;
  for (const NormalComponent& c : components_) total += c.weight;
  EQT_CHECK(total > 0 && std::isfinite(total), "a mixture of total weight {}", total);
  for (NormalComponent& c : components_) {
    const double inside = component_moments(c, 0, 1).mass;
    EQT_CHECK(c.deviation > 0 && inside > 0, "Normal({}, {}^2) has no mass in [0, 1]", c.mean,
              c.deviation);
    c.weight /= total * inside;
  }
}

CellMoments NormalMixture::moments(double a, double b) const noexcept {
  CellMoments sum;
  for (const NormalComponent& c : components_) {
    const CellMoments m = component_moments(c, a, b);
    sum.mass += c.weight * m.mass;
    sum.first += c.weight * m.first;
    sum.second += c.weight * m.second;
  }
  return sum;
}

NormalMixture::MassAbove NormalMixture::mass_above(double a, double b) const noexcept {
  MassAbove sum;
  for (const NormalComponent& c : components_) {
    const double low = (a - c.mean) / c.deviation, high = (b - c.mean) / c.deviation;
    const NormalTail at_low = normal_tail(std::abs(low)), at_high = normal_tail(std::abs(high));
    sum.mass += c.weight * mass_between(low, high, at_low, at_high);
    sum.density += c.weight / c.deviation * at_low.density;
  }
  return sum;
}

double NormalMixture::mass(double a, double b) const noexcept { return mass_above(a, b).mass; }

double NormalMixture::quantile(double share) const noexcept {
  double low = 0, high = 1;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = (low + high) / 2;
    (mass(0, middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace eqt::codec
