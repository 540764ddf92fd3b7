// SPDX-License-Identifier: Apache-2.0
// The header of NumPy's array files, of which nothing is believed.
//
// Format   NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays", and
//          numpy.lib.format: versions 1.0, 2.0 and 3.0. After the magic bytes, two bytes of version
//          and a length of two (1.0) or four bytes follows a dictionary as Python writes it, with
//          exactly the keys descr, fortran_order and shape; then the values.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

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

struct NpyHeader {
  NpyType type = NpyType::float32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::size_t> shape;  // () is a single value
  std::size_t begin = 0;           // [bytes] where the values start
  std::size_t count = 0;           // of values
};

/// Reads the header of a file and compares its length with what the header says.
/// @param path for messages
/// @throws Error{data} for anything that is no array of plain numbers, or a file that is longer or
/// shorter than that
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& path);

}  // namespace eqt::data
