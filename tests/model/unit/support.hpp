// SPDX-License-Identifier: Apache-2.0
// Batches that need no data set.

#pragma once

#include <cstdint>
#include <vector>

#include "core/random.hpp"
#include "data/dataset.hpp"
#include "support/pictures.hpp"

namespace eqt::model {

inline data::Batch random_batch(std::size_t size, data::ImageShape shape, int classes = 10,
                                std::uint64_t seed = 1) {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  const RandomStream random({.run_seed = seed});
  for (std::size_t i = 0; i < size * shape.values(); ++i) {
    images.push_back(2 * random.uniform(static_cast<std::uint32_t>(i)) - 1);
  }
  for (std::size_t i = 0; i < size; ++i) {
    labels.push_back(static_cast<std::int64_t>(i) % classes);
  }
  data::Batch batch;
  test::write_pictures(shape, classes, images, labels, batch);
  return batch;
}

}  // namespace eqt::model
