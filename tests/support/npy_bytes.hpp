// SPDX-License-Identifier: Apache-2.0
// NumPy's array files, written by hand.

#pragma once

#include <string>
#include <vector>

namespace eqt::test {

/// A file of format version 1.0 with this header and the values as they lie in memory.
template <typename T>
std::string npy_bytes(const std::string& header, const std::vector<T>& values) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  if (!values.empty())
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

/// The header that NumPy writes: "{'descr': '<f4', ...".
inline std::string npy_header(const std::string& type, const std::string& shape,
                              bool fortran = false) {
  return "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

template <typename T>
std::string npy_bytes(const std::string& type, const std::string& shape,
                      const std::vector<T>& values) {
  return npy_bytes(npy_header(type, shape), values);
}

}  // namespace eqt::test
