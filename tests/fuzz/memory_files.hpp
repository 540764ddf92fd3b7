// SPDX-License-Identifier: Apache-2.0
// Files in memory, for readers that take paths.

#pragma once

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::fuzz {

using Bytes = std::span<const std::uint8_t>;

[[noreturn]] inline void breach(std::string_view reason) {
  fmt::print(stderr, "reader_fuzz: {}\n", reason);
  std::abort();
}

/// A file without a name in any folder.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("eqt-fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) breach("expected a file in memory");
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  void hold(Bytes bytes) const {
    const bool held =
        ftruncate(descriptor_, 0) == 0 &&
        pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    if (!held) breach("expected to write a file in memory");
  }

 private:
  int descriptor_;
};

/// A folder of which each file is in memory.
class MemoryFolder {
 public:
  explicit MemoryFolder(const std::vector<std::string>& names) {
    std::string pattern = (std::filesystem::temp_directory_path() / "eqt-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) breach("expected to make a folder");
    path_ = pattern;
    for (const std::string& name : names)
      std::filesystem::create_symlink(files_[name].path(), path_ / name);
  }
  ~MemoryFolder() {
    std::error_code left;
    std::filesystem::remove_all(path_, left);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  std::string path() const { return path_.string(); }
  void hold(const std::string& name, const std::string& text) const {
    const auto bytes = std::as_bytes(std::span(text));
    files_.at(name).hold({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  }

 private:
  std::filesystem::path path_;
  std::map<std::string, MemoryFile> files_;
};

}  // namespace eqt::fuzz
