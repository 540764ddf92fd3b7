// SPDX-License-Identifier: Apache-2.0
// Builds zip archives of stored records, for tests of their readers.

#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eqt::support {

/// Little-endian, as numbers in archives.
inline std::string number_bytes(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFF : 0);
  return text;
}

/// APPNOTE.TXT 4.3.7, 4.3.12 and 4.3.16, by hand. @param records names and bytes
inline std::string zip_bytes(const std::vector<std::pair<std::string, std::string>>& records) {
  std::string file, directory;
  for (const auto& [name, bytes] : records) {
    const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
    const std::string facts = number_bytes(0, 8) + number_bytes(crc32_z(0, data, bytes.size()), 4) +
                              number_bytes(bytes.size(), 4) + number_bytes(bytes.size(), 4) +
                              number_bytes(name.size(), 2) + number_bytes(0, 2);
    directory += "PK\1\2" + number_bytes(20, 2) + number_bytes(20, 2) + facts +
                 number_bytes(0, 10) + number_bytes(file.size(), 4) + name;
    file += "PK\3\4" + number_bytes(20, 2) + facts + name + bytes;
  }
  return file + directory + "PK\5\6" + number_bytes(0, 4) + number_bytes(records.size(), 2) +
         number_bytes(records.size(), 2) + number_bytes(directory.size(), 4) +
         number_bytes(file.size(), 4) + number_bytes(0, 2);
}

}  // namespace eqt::support
