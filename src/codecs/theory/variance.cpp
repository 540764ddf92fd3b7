// SPDX-License-Identifier: Apache-2.0
#include "theory/variance.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "theory/level_bounds.hpp"

namespace eqt::theory {
namespace {

double squares_of(std::span<const float> values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return squares;
}

}  // namespace

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

}  // namespace eqt::theory
