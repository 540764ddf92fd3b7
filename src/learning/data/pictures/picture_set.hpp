// SPDX-License-Identifier: Apache-2.0
// Pictures of the user's own as a data set: decoded when they are read.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/pictures/framing.hpp"
#include "data/pictures/picture_reader.hpp"

namespace eqt::data {

class PictureSet final : public Dataset {
 public:
  PictureSet(std::unique_ptr<PictureReader> reader, const Normalization& normalization,
             int classes);

  std::size_t size() const override { return reader_->list().size(); }
  std::vector<ArraySpec> inputs() const override { return {input_}; }
  std::optional<ArraySpec> target() const override { return target_; }
  int classes() const override { return classes_; }
  int label(std::size_t sample) const override;
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;
  void standardize_by(std::span<const Moments> moments) override;

 private:
  std::unique_ptr<PictureReader> reader_;
  PixelTables tables_;
  int classes_;
  ArraySpec input_, target_;
};

}  // namespace eqt::data
