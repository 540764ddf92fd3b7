// SPDX-License-Identifier: Apache-2.0
// Samples of numbers, read from files as they are asked for, with a class, flags or numbers as
// targets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/csv_table.hpp"
#include "data/dataset.hpp"
#include "data/npy_file.hpp"

namespace eqt::data {

/// An array whose first dimension is the sample. Reading is thread-safe.
class ArraySource {
 public:
  virtual ~ArraySource() = default;
  virtual std::size_t samples() const = 0;
  /// Returns the shape of one sample, () for single numbers.
  virtual const std::vector<std::size_t>& shape() const = 0;
  virtual bool whole() const = 0;  // the type of its numbers has no fractions
  /// The numbers of a sample, in row-major order. @pre out has as many as shape()
  virtual void read(std::size_t sample, std::span<double> out) const = 0;
  virtual void read(std::size_t sample, std::span<float> out) const = 0;
  /// @pre whole()
  virtual void read(std::size_t sample, std::span<std::int64_t> out) const = 0;
  /// Says where number `index` of a sample is, for messages: "FILE, row 3, column 2 (from 0)".
  virtual std::string place(std::size_t sample, std::size_t index) const = 0;
  virtual const std::string& path() const = 0;

  std::size_t values() const;  // of one sample
};

/// @throws Error{data} as NpyFile, or where there is no first dimension
std::unique_ptr<ArraySource> open_npy(const std::filesystem::path& file);

/// Chosen columns of a table, in this order; the shape of a sample is (columns).
std::unique_ptr<ArraySource> make_csv_source(std::shared_ptr<const CsvTable> table,
                                             std::vector<std::size_t> columns);

/// The targets of all samples are held in memory, but for tokens.
struct ArrayTargets {
  std::optional<ArraySpec> spec;             // nothing: samples have none
  int classes = 0;                           // TargetKind::classes: one more than the largest label
  std::vector<std::int64_t> integers;        // (n, ...) if spec is of int64
  std::vector<float> floats;                 // (n, ...) if spec is of float32
  std::unique_ptr<ArraySource> tokens = {};  // TargetKind::tokens: read when they are asked for
};

/// Returns the smallest vocabulary that has every token of the source: one more than the largest.
/// @param ignored whether kIgnored may stand in place of a token
/// @pre source.whole()
/// @throws Error{data} naming file, row and column of what is no token, or of a sample that has
/// none
std::int64_t vocabulary_of(const ArraySource& source, bool ignored);

/// Reads the first `count` targets. @pre kind is not TargetKind::tokens
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
    std::int64_t tokens = 0;  // inputs are tokens in [0, tokens); 0: they are other numbers
  };
  /// @pre targets are those of so many samples; standardize is off with integers, which tokens are
  ArraySet(std::unique_ptr<ArraySource> source, ArrayTargets targets, const Options& options);

  std::size_t size() const override { return options_.count; }
  std::vector<ArraySpec> inputs() const override { return {input_}; }
  std::optional<ArraySpec> target() const override { return targets_.spec; }
  int classes() const override { return targets_.classes; }
  int label(std::size_t sample) const override;
  void read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
            Batch& out) const override;
  void standardize_by(std::span<const Moments> moments) override;
  void settle_tokens(std::int64_t tokens) override;

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
