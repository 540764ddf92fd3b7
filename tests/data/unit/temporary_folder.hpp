// SPDX-License-Identifier: Apache-2.0
// A folder that lasts as long as a test, and ways to put files into it.

#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

using Bytes = std::vector<std::uint8_t>;

class TemporaryFolder {
 public:
  std::filesystem::path path() const { return folder_.path(); }

  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    std::ofstream out(path() / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    return path() / name;
  }

  std::filesystem::path write_gzip(const std::string& name, const Bytes& bytes) const {
    gzFile out = gzopen((path() / name).c_str(), "wb");
    gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(out);
    return path() / name;
  }

 private:
  eqt::test::TemporaryFolder folder_;
};

inline Bytes read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}
