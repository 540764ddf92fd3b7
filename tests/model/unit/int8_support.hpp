// SPDX-License-Identifier: Apache-2.0
// What tests of 8-bit networks share.

#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "data/known_images.hpp"
#include "model/replica.hpp"
#include "support/pictures.hpp"

namespace eqt::model {

inline constexpr data::ImageShape kCifar{3, 32, 32};

inline ModelOptions options_of(const ModelRow& model, Shortcut shortcut = Shortcut::projection) {
  return {.model = model, .inputs = test::pictures(kCifar), .shortcut = shortcut};
}

inline ModelOptions with_norm(Entry<NormalizationRow> norm, ModelOptions options) {
  options.normalization = norm;
  return options;
}

inline ModelOptions rounded(ModelOptions options) {
  options.precision = Precision::int8;
  return options;
}

/// Pictures of stripes, which networks learn to tell apart.
inline data::Batch stripes(std::size_t size, std::uint64_t seed) {
  const data::LabelledBytes set = data::make_synthetic(size, data::SyntheticPart::train, seed);
  std::vector<float> images;
  for (const auto byte : set.pixels) images.push_back(static_cast<float>(byte) / 64.0f - 2);
  const std::vector<std::int64_t> labels(set.labels.begin(), set.labels.end());
  data::Batch batch;
  test::write_pictures(kCifar, 10, images, labels, batch);
  return batch;
}

/// |a - b|^2 / |b|^2.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return error / norm;
}

inline std::vector<float> copy_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

inline void descend(Replica& replica, float rate) {
  const auto gradient = replica.gradient();
  const auto parameters = replica.parameters();
  for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] -= rate * gradient[i];
}

}  // namespace eqt::model
