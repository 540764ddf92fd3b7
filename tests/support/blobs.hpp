// SPDX-License-Identifier: Apache-2.0
// A data set that a linear model learns in a few steps.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "support/gaussian.hpp"
#include "support/pictures.hpp"

namespace eqt::test {

/// Two classes of 12 pixels that a linear model separates.
class Blobs final : public PictureSet {
 public:
  Blobs() : PictureSet({1, 3, 4}, 2) {}
  std::size_t size() const override { return 240; }
  int label(std::size_t sample) const override { return static_cast<int>(sample % 2); }
  void read(std::span<const std::size_t> indices, const std::optional<data::AugmentKey>&,
            data::Batch& out) const override {
    std::vector<float> images;
    std::vector<std::int64_t> labels;
    for (const std::size_t i : indices) {
      const auto noise = test::gaussian(12, {.run_seed = 8, .step = i});
      for (const float x : noise) images.push_back(x + (i % 2 == 0 ? 1.0f : -1.0f));
      labels.push_back(static_cast<std::int64_t>(i % 2));
    }
    write(images, labels, out);
  }
};

}  // namespace eqt::test
