// SPDX-License-Identifier: Apache-2.0
#include "support/norm_oracle.hpp"

#include <cmath>
#include <numbers>

namespace eqt::test {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr std::size_t kChunks = 16;

using Set = std::vector<std::size_t>;  // of elements that share statistics, in order

std::vector<Set> channels_of_batch(const NormShape& s) {
  std::vector<Set> sets(s.c);
  for (std::size_t i = 0; i < s.count(); ++i) sets[s.channel_of(i)].push_back(i);
  return sets;
}

std::vector<Set> groups_of_samples(const NormShape& s) {
  std::vector<Set> sets(s.n * s.groups);
  const std::size_t width = s.count() / sets.size();
  for (std::size_t i = 0; i < s.count(); ++i) sets[i / width].push_back(i);
  return sets;
}

/// The factor of differences from the mean, or of activations, and its derivative.
struct Scale {
  double mean = 0;
  double inverse = 0;
  std::vector<double> slope;  // d inverse / dx, by position in the set
};

double mean_of(const Set& set, const std::vector<double>& x) {
  double sum = 0;
  for (const std::size_t i : set) sum += x[i];
  return sum / static_cast<double>(set.size());
}

Scale by_deviation(const Set& set, const std::vector<double>& x) {
  Scale scale{.mean = mean_of(set, x), .slope = {}};
  const double m = static_cast<double>(set.size());
  double variance = 0;
  for (const std::size_t i : set) variance += std::pow(x[i] - scale.mean, 2) / m;
  scale.inverse = 1 / std::sqrt(variance + kEpsilon);
  for (const std::size_t i : set) {
    scale.slope.push_back(-std::pow(scale.inverse, 3) * (x[i] - scale.mean) / m);
  }
  return scale;
}

Scale by_range(const Set& set, const std::vector<double>& x) {
  Scale scale{.mean = mean_of(set, x), .slope = std::vector<double>(set.size())};
  const std::size_t n = set.size() / kChunks;
  const double factor = 0.5 * 0.35 * (1 + std::sqrt(std::numbers::pi * std::log(4.0))) /
                        std::sqrt(2 * std::log(static_cast<double>(n)));
  std::vector<double> direction(set.size());
  double range = 0;
  for (std::size_t k = 0; k < kChunks; ++k) {
    std::size_t max = k * n, min = k * n;
    for (std::size_t j = k * n; j < (k + 1) * n; ++j) {
      if (x[set[j]] > x[set[max]]) max = j;
      if (x[set[j]] < x[set[min]]) min = j;
    }
    range += (x[set[max]] - x[set[min]]) / kChunks;
    direction[max] += 1.0 / kChunks;
    direction[min] -= 1.0 / kChunks;
  }
  scale.inverse = 1 / (factor * range + kEpsilon);
  for (std::size_t j = 0; j < set.size(); ++j) {
    scale.slope[j] = -factor * scale.inverse * scale.inverse * direction[j];
  }
  return scale;
}

struct Gate {
  double h, slope;
};

Gate sigmoid(double z) {
  const double h = 1 / (1 + std::exp(-z));
  return {h, h * (1 - h)};
}

Gate hard_sigmoid(double z) {
  return {std::fmax(0, std::fmin(1, z / 6 + 0.5)), std::abs(z) < 3 ? 1.0 / 6 : 0};
}

/// y = weight * (x - mean) * inverse + bias
void centred(const NormShape& shape, const NormInput& in, const Set& set, const Scale& scale,
             NormOutput& out) {
  double mean_gradient = 0, d_inverse = 0;
  for (const std::size_t i : set) {
    const std::size_t c = shape.channel_of(i);
    const double t = in.x[i] - scale.mean, d = in.g[i] * in.weight[c];
    out.y[i] = in.weight[c] * t * scale.inverse + in.bias[c];
    out.weight[c] += in.g[i] * t * scale.inverse;
    out.bias[c] += in.g[i];
    mean_gradient += d / static_cast<double>(set.size());
    d_inverse += d * t;
  }
  for (std::size_t j = 0; j < set.size(); ++j) {
    const std::size_t i = set[j];
    const double d = in.g[i] * in.weight[shape.channel_of(i)];
    out.dx[i] = scale.inverse * (d - mean_gradient) + d_inverse * scale.slope[j];
  }
}

/// y = weight * x * h(v * x) * inverse + bias
void gated(const NormShape& shape, const NormInput& in, const Set& set, const Scale& scale,
           Gate (*gate_of)(double), NormOutput& out) {
  double d_inverse = 0;
  for (const std::size_t i : set) {
    const std::size_t c = shape.channel_of(i);
    const double z = in.v[c] * in.x[i], d = in.g[i] * in.weight[c];
    const Gate gate = gate_of(z);
    const double u = in.x[i] * gate.h;
    out.y[i] = in.weight[c] * u * scale.inverse + in.bias[c];
    out.weight[c] += in.g[i] * u * scale.inverse;
    out.bias[c] += in.g[i];
    out.v[c] += d * scale.inverse * in.x[i] * in.x[i] * gate.slope;
    out.dx[i] = d * scale.inverse * (gate.h + z * gate.slope);
    d_inverse += d * u;
  }
  for (std::size_t j = 0; j < set.size(); ++j) out.dx[set[j]] += d_inverse * scale.slope[j];
}

}  // namespace

NormOutput norm_oracle(const std::string& kind, const NormShape& shape, const NormInput& input) {
  NormOutput out;
  out.y.resize(shape.count());
  out.dx.resize(shape.count());
  for (auto* gradient : {&out.weight, &out.bias, &out.v}) gradient->resize(shape.c);
  const bool over_batch = kind == "batchnorm" || kind == "range-batchnorm";
  const bool by_ranges = kind.starts_with("range-");
  for (const Set& set : over_batch ? channels_of_batch(shape) : groups_of_samples(shape)) {
    const Scale scale = by_ranges ? by_range(set, input.x) : by_deviation(set, input.x);
    out.mean.push_back(scale.mean);
    out.inverse.push_back(scale.inverse);
    if (kind == "evonorm-s0") {
      gated(shape, input, set, scale, sigmoid, out);
    } else if (kind == "range-evonorm") {
      gated(shape, input, set, scale, hard_sigmoid, out);
    } else {
      centred(shape, input, set, scale, out);
    }
  }
  return out;
}

}  // namespace eqt::test
