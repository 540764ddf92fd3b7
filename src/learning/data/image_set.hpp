// SPDX-License-Identifier: Apache-2.0
// Labelled pictures in memory as bytes, and their augmentation: random shifts by a few pixels and
// horizontal flips.
//
// An image takes one byte per value; a table per channel converts bytes to normalised floats when a
// batch is written. So 50000 CIFAR images take 150 MB instead of 600.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.hpp"

namespace eqt::data {

/// Raw images with their labels.
struct LabelledBytes {
  std::vector<std::uint8_t> pixels;  // (n, h, w, c)
  std::vector<std::uint8_t> labels;  // (n), each below `classes`
  ImageShape shape;
  int classes = 0;
};

/// Position of a sample's crop in the padded image, and whether it is then mirrored.
struct Crop {
  int top = 0;   // 0 ... 2 padding
  int left = 0;  // 0 ... 2 padding
  bool flip = false;
};

/// The crop of `sample` in `key.epoch`: uniform, and a pure function of the arguments.
/// @param padding [pixels] on each side
Crop draw_crop(const AugmentKey& key, std::size_t sample, int padding = kCropPadding,
               Flips flips = Flips::random);

class ImageSet final : public Dataset {
 public:
  /// Channels are 1 or 3; shapes and sizes agree. @pre a reflecting border is smaller than a side
  ImageSet(LabelledBytes data, const Normalization& normalization,
           const Augmentation& augmentation = {});

  std::size_t size() const override { return data_.labels.size(); }
  std::vector<ArraySpec> inputs() const override { return {input_}; }
  std::optional<ArraySpec> target() const override { return target_; }
  int classes() const override { return data_.classes; }
  int label(std::size_t sample) const override;
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;

 private:
  using Table = std::array<float, 256>;  // byte -> normalised value

  template <int kChannels>
  void read_images(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
                   float* out) const;
  template <int kChannels>
  void write_pixels(const std::uint8_t* from, std::size_t pixels, bool mirrored, float* out) const;
  template <int kChannels>
  void write_black(std::size_t pixels, float* out) const;
  template <int kChannels>
  void write_crop(const std::uint8_t* image, const Crop& crop, float* out) const;
  template <int kChannels>
  void write_reflected(const std::uint8_t* image, const Crop& crop, float* out) const;

  const ImageShape& shape() const { return data_.shape; }

  LabelledBytes data_;
  ArraySpec input_, target_;
  std::vector<Table> tables_;  // (c)
  Augmentation augmentation_;
};

}  // namespace eqt::data
