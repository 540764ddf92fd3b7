// SPDX-License-Identifier: Apache-2.0
// Samples of numbers, read from files as they are asked for.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/csv_table.hpp"
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

}  // namespace eqt::data
