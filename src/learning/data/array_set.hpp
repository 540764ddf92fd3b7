// SPDX-License-Identifier: Apache-2.0
// Samples of numbers with a class, flags or numbers as targets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/array_source.hpp"
#include "data/dataset.hpp"
#include "data/moments.hpp"

namespace eqt::data {

/// The targets of all samples are held in memory.
struct ArrayTargets {
  std::optional<ArraySpec> spec;       // nothing: samples have none
  int classes = 0;                     // TargetKind::classes: one more than the largest label
  std::vector<std::int64_t> integers;  // (n, ...) if spec is of int64
  std::vector<float> floats;           // (n, ...) if spec is of float32
};

/// Reads the first `count` targets.
/// @throws Error{data} naming file, row and column of a target that is none of this kind
ArrayTargets read_targets(const ArraySource& source, TargetKind kind, std::size_t count);

/// The groups of a sample's numbers that share one mean and one deviation.
class StandardGroups {
 public:
  /// @param shape of a sample @pre standardize is not Standardize::off, shape has a dimension
  StandardGroups(Standardize standardize, std::span<const std::size_t> shape);
  std::size_t count() const { return count_; }
  /// The group of number `index` of a sample.
  std::size_t of(std::size_t index) const { return index / stride_ % count_; }

 private:
  std::size_t count_, stride_;
};

class ArraySet final : public Dataset {
 public:
  struct Options {
    std::size_t count = 0;  // samples, from the first on
    bool integers = false;  // inputs are int64, else float32
    Standardize standardize = Standardize::off;
  };
  /// @pre targets are those of so many samples; standardize is off with integers
  ArraySet(std::unique_ptr<ArraySource> source, ArrayTargets targets, const Options& options);

  std::size_t size() const override { return options_.count; }
  std::vector<ArraySpec> inputs() const override { return {input_}; }
  std::optional<ArraySpec> target() const override { return targets_.spec; }
  int classes() const override { return targets_.classes; }
  int label(std::size_t sample) const override;
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;
  void standardize_by(std::span<const Moments> moments) override;

  /// Reads all numbers: their moments by group, none without standardization.
  /// @throws Error{data} naming file, row and column of a number that is not finite
  std::vector<Moments> measure() const;

 private:
  void read_floats(std::span<const std::size_t> indices, std::span<float> out) const;
  void read_targets(std::span<const std::size_t> indices, Array& out) const;

  std::unique_ptr<ArraySource> source_;
  ArrayTargets targets_;
  Options options_;
  ArraySpec input_;
  std::size_t values_;                    // of a sample's input
  std::optional<StandardGroups> groups_;  // nothing: values stay as they are
  std::vector<double> mean_, factor_;     // by group; empty until standardize_by()
};

}  // namespace eqt::data
