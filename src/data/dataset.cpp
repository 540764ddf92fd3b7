// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <utility>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "data/image_set.hpp"

namespace eqt::data {
namespace {

void keep_first(LabelledBytes& data, std::size_t limit, const char* key) {
  const std::size_t count = data.labels.size();
  if (limit > count) {
    fail(Kind::usage, "{} must be between 0 (all) and {}, the size of the set, found {}", key,
         count, limit);
  }
  if (limit == 0 || limit == count) return;
  data.labels.resize(limit);
  data.pixels.resize(limit * data.shape.values());
  data.pixels.shrink_to_fit();
}

Normalization normalization_of(const DatasetRow& set) {
  const auto channels = static_cast<std::size_t>(set.facts.shape.channels);
  const auto by_channel = [&](std::span<const double> values) {
    const auto used = values.first(channels);
    return std::vector<double>(used.begin(), used.end());
  };
  return {by_channel(set.mean), by_channel(set.deviation)};
}

}  // namespace

const Catalogue<DatasetRow>& DatasetRow::all() {
  static const Catalogue<DatasetRow> rows = {
#define EQT_DATASET(id) sets::id,
#include "data/datasets.def"
  };
  return rows;
}

std::vector<int> labels_of(const Dataset& dataset) {
  std::vector<int> labels(dataset.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = dataset.label(i);
  return labels;
}

DatasetPair open_dataset(const DatasetOptions& options) {
  const DatasetRow& set = *options.set;
  LabelledSets samples = set.read(options);
  keep_first(samples.train, options.limit_train, "data.limit_train");
  keep_first(samples.test, options.limit_test, "data.limit_test");
  const Normalization normalization = normalization_of(set);
  return {std::make_unique<ImageSet>(std::move(samples.train), normalization),
          std::make_unique<ImageSet>(std::move(samples.test), normalization), normalization,
          std::vector<std::string>(set.class_names.begin(), set.class_names.end())};
}

}  // namespace eqt::data
