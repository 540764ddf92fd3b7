// SPDX-License-Identifier: Apache-2.0
// NumPy's array files, memory-mapped: values are converted when they are read. Nothing in a header
// is believed.
//
// Format   NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays", and
//          numpy.lib.format: versions 1.0, 2.0 and 3.0. After the magic bytes, two bytes of version
//          and a length of two (1.0) or four bytes follows a dictionary as Python writes it, with
//          exactly the keys descr, fortran_order and shape; then the values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"

namespace eqt::data {

/// Maps a whole regular file, read-only. The system ends a process (SIGBUS) that reads behind the
/// end of a file that has become shorter: call require_whole() before reading.
class MappedFile {
 public:
  /// @throws Error{data} naming the file if it is missing, no regular file or cannot be mapped
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// What is cut off between this call and reading is not noticed.
  /// @throws Error{data} naming the file if it is shorter than when it was mapped
  void require_whole() const;

 private:
  std::filesystem::path file_;
  std::unique_ptr<Descriptor> opened_;
  std::span<const std::byte> bytes_;  // empty for an empty file, which cannot be mapped
};

/// NumPy's plain numbers; all others, objects among them, are refused.
enum class NpyType {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64
};

/// Returns the name as NumPy spells it: "float32".
std::string_view name_of(NpyType type);
std::size_t bytes_of(NpyType type);
/// Returns true where the type holds whole numbers; booleans are 0 and 1.
bool is_whole(NpyType type);

/// The header of a file says this.
struct NpyHeader {
  NpyType type = NpyType::float32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::size_t> shape;  // () is a single value
  std::size_t begin = 0;           // [bytes] where the values start
  std::size_t count = 0;           // of values
};

/// An array of plain numbers in row-major order. Reading is thread-safe.
class NpyFile {
 public:
  /// @throws Error{data} for a file that cannot be read, is no such array, or is longer or shorter
  /// than it says. An array of several dimensions in Fortran's order is
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
