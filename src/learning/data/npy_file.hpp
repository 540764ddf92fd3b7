// SPDX-License-Identifier: Apache-2.0
// NumPy's array files, memory-mapped: values are converted when they are read.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_file.hpp"
#include "data/npy_header.hpp"

namespace eqt::data {

/// An array of plain numbers in row-major order. Reading is thread-safe.
class NpyFile {
 public:
  /// @throws Error{data} for a file that cannot be read, is no such array, or is longer or shorter
  /// than it says; see parse_npy_header(). An array of several dimensions in Fortran's order is
  /// refused too.
  explicit NpyFile(const std::filesystem::path& file);

  const std::string& path() const noexcept { return path_; }
  NpyType type() const noexcept { return header_.type; }
  bool big_endian() const noexcept { return header_.big_endian; }
  const std::vector<std::size_t>& shape() const noexcept { return header_.shape; }
  std::size_t size() const noexcept { return header_.count; }  // [values]

  /// Converts the values from number `first` on, counted in row-major order. Large whole numbers
  /// are rounded, large doubles become infinite floats.
  /// @pre first + out.size() <= size()
  void read(std::size_t first, std::span<float> out) const;
  void read(std::size_t first, std::span<double> out) const;
  /// @pre is_whole(type()). A uint64 above the largest int64 becomes that.
  void read(std::size_t first, std::span<std::int64_t> out) const;

 private:
  template <typename To>
  void convert(std::size_t first, std::span<To> out) const;

  std::string path_;
  MappedFile file_;
  NpyHeader header_;
};

/// "(60000, 28, 28)", as Python writes a shape.
std::string shape_text(std::span<const std::size_t> shape);

}  // namespace eqt::data
