// SPDX-License-Identifier: Apache-2.0
// The catalogue of data sets, one row each. datasets.def lists the rows; each is in the file that
// reads the set.

#pragma once

#include <array>
#include <span>
#include <string_view>

#include "core/catalogue.hpp"
#include "data/dataset.hpp"
#include "data/image_set.hpp"

namespace eqt::data {

/// What is known of a set before it is read.
struct DatasetFacts {
  ImageShape shape;
  int classes = 0;
  std::size_t train = 0, test = 0;  // [samples]
};

/// The samples of a whole set as they are in its files.
struct LabelledSets {
  LabelledBytes train;
  LabelledBytes test;
};

struct DatasetRow {
  std::string_view name;   // in configs
  std::string_view about;  // one line
  std::string_view title;  // in tables of results
  DatasetFacts facts;
  // Mean and deviation of the training pixels by channel, as fractions of 255; the first
  // shape.channels are used.
  std::array<double, 3> mean;
  std::array<double, 3> deviation;
  std::span<const std::string_view> class_names;  // (facts.classes), by label
  bool needs_files;
  /// Reads the whole set: facts.train and facts.test samples.
  /// @throws Error{data} for files that are missing or malformed
  LabelledSets (*read)(const DatasetOptions& options);

  static const Catalogue<DatasetRow>& all();
};

namespace sets {
#define EQT_DATASET(id) extern const DatasetRow id;
#include "data/datasets.def"
}  // namespace sets

}  // namespace eqt::data
