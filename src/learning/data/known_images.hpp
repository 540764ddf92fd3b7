// SPDX-License-Identifier: Apache-2.0
// Sets of labelled pictures that never change and are held in memory as bytes: what their rows
// share.

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "data/catalogue.hpp"
#include "data/image_set.hpp"

namespace eqt::data {

/// The samples of a whole set as they are in its files.
struct LabelledSets {
  LabelledBytes train;
  LabelledBytes test;
};

/// These facts of a set are always true.
struct KnownImages {
  ImageShape shape;
  int classes = 0;
  std::size_t train = 0, test = 0;  // [samples]
  // Mean and deviation of the training pixels by channel, as fractions of 255; the first
  // shape.channels are used.
  std::array<double, 3> mean;
  std::array<double, 3> deviation;
  std::span<const std::string_view> class_names;  // (classes), by label
  /// Reads the whole set: `train` samples, if options need them, and `test` samples.
  /// @throws Error{data} for files that are missing or malformed
  LabelledSets (*read)(const DatasetOptions& options);
};

/// @throws Error{usage} unless the set can be resized as options ask
DatasetFacts look_at_known(const KnownImages& set, const DatasetOptions& options);
DatasetPair open_known(const KnownImages& set, const DatasetOptions& options);

/// Config keys that only such sets read.
inline constexpr std::string_view kKnownImageKeys[] = {"resize"};

/// The functions of the row of `kSet`.
template <const KnownImages& kSet>
DatasetFacts look_at_known(const DatasetOptions& options) {
  return look_at_known(kSet, options);
}
template <const KnownImages& kSet>
DatasetPair open_known(const DatasetOptions& options) {
  return open_known(kSet, options);
}

}  // namespace eqt::data
