// SPDX-License-Identifier: Apache-2.0
// Labelled images as plain floats. No torch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/catalogue.hpp"

namespace eqt::data {

struct DatasetRow;  // of data/catalogue.hpp

struct ImageShape {
  int channels = 0;
  int height = 0;  // [pixels]
  int width = 0;   // [pixels]
  std::size_t values() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
           static_cast<std::size_t>(width);
  }
  bool operator==(const ImageShape&) const = default;
};

/// Normalised images and their labels.
struct Batch {
  std::vector<float> images;         // (n, h, w, c): channels last, as the network wants them
  std::vector<std::int64_t> labels;  // (n)
  ImageShape shape;
  std::size_t size() const { return labels.size(); }
};

/// The key of augmentation: crop and flip of a sample depend only on (seed, epoch, sample index),
/// not on the rank or the batch.
struct AugmentKey {
  std::uint64_t run_seed = 0;
  std::uint64_t epoch = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;  // [samples]
  virtual ImageShape shape() const = 0;  // of the images that read() writes
  virtual int classes() const = 0;
  virtual int label(std::size_t sample) const = 0;  // in [0, classes())
  /// Fills `out` with the samples at `indices`, normalised per channel; augmented (pad 4, random
  /// crop, random horizontal flip) if `augment` is set. Reuses the memory of `out`. Thread-safe.
  virtual void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
                    Batch& out) const = 0;
};

/// The label of each sample (n).
std::vector<int> labels_of(const Dataset& dataset);

/// Mean and standard deviation of each channel of the training set, as fractions of 255.
struct Normalization {
  std::vector<double> mean;       // (c)
  std::vector<double> deviation;  // (c)
};

/// Training and test set with one normalisation.
struct DatasetPair {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
  Normalization normalization;
  std::vector<std::string> class_names;  // (classes), by label
};

struct DatasetOptions {
  Entry<DatasetRow> set;
  std::string path = {};        // folder with the set's own files; "" = its default place, if any
  std::size_t limit_train = 0;  // first this many samples; 0 = all
  std::size_t limit_test = 0;
  std::uint64_t seed = 1;  // of generated sets
};

/// Reads a whole data set into memory (as bytes).
/// @throws Error{data} when a file is missing, truncated, wrong-sized or malformed: the message
/// names the file, the expected and found size, and how to get it. @throws Error{usage} when a
/// limit exceeds the set.
DatasetPair open_dataset(const DatasetOptions& options);

}  // namespace eqt::data
