// SPDX-License-Identifier: Apache-2.0
// Batches of labelled pictures, written and read in one line.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.hpp"

namespace eqt::test {

/// The inputs of a network of pictures.
inline std::vector<data::ArraySpec> pictures(const data::ImageShape& shape) {
  return {data::image_spec(shape)};
}

inline std::span<const float> images_in(const data::Batch& batch) {
  return batch.inputs.at(0).get<float>();
}
inline std::span<float> images_in(data::Batch& batch) { return batch.inputs.at(0).get<float>(); }
inline std::span<const std::int64_t> labels_in(const data::Batch& batch) {
  return batch.targets.get<std::int64_t>();
}
inline std::span<std::int64_t> labels_in(data::Batch& batch) {
  return batch.targets.get<std::int64_t>();
}

/// `images` and `labels` in the memory that `batch` has.
inline void write_pictures(const data::ImageShape& shape, int classes,
                           std::span<const float> images, std::span<const std::int64_t> labels,
                           data::Batch& batch) {
  batch.inputs.resize(1);
  std::ranges::copy(images,
                    batch.inputs[0].prepare<float>(data::image_spec(shape), labels.size()).begin());
  std::ranges::copy(
      labels,
      batch.targets.prepare<std::int64_t>(data::class_spec(classes), labels.size()).begin());
}

/// A data set of pictures: what it delivers follows from their shape and the number of classes.
class PictureSet : public data::Dataset {
 public:
  PictureSet(const data::ImageShape& shape, int classes) : shape_(shape), classes_(classes) {}
  std::vector<data::ArraySpec> inputs() const override { return pictures(shape_); }
  std::optional<data::ArraySpec> target() const override { return data::class_spec(classes_); }
  int classes() const override { return classes_; }

 protected:
  /// Of read().
  void write(std::span<const float> images, std::span<const std::int64_t> labels,
             data::Batch& batch) const {
    write_pictures(shape_, classes_, images, labels, batch);
  }

 private:
  const data::ImageShape shape_;
  const int classes_;
};

}  // namespace eqt::test
