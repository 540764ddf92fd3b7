// SPDX-License-Identifier: Apache-2.0
// A data set that a linear model learns in a few steps.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/dataset.hpp"
#include "support/gaussian.hpp"

namespace eqt::test {

/// Two classes of 12 pixels that a linear model separates.
class Blobs final : public data::Dataset {
 public:
  std::size_t size() const override { return 240; }
  data::ImageShape shape() const override { return {1, 3, 4}; }
  int classes() const override { return 2; }
  int label(std::size_t sample) const override { return static_cast<int>(sample % 2); }
  void read(std::span<const std::size_t> indices, const std::optional<data::AugmentKey>&,
            data::Batch& out) const override {
    out.shape = shape();
    out.images.clear();
    out.labels.clear();
    for (const std::size_t i : indices) {
      const auto noise = test::gaussian(12, {.run_seed = 8, .step = i});
      for (const float x : noise) out.images.push_back(x + (i % 2 == 0 ? 1.0f : -1.0f));
      out.labels.push_back(static_cast<std::int64_t>(i % 2));
    }
  }
};

}  // namespace eqt::test
