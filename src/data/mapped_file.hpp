// SPDX-License-Identifier: Apache-2.0
// A file's bytes in the address space, read from the disk when they are first used.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace eqt::data {

/// Maps a whole regular file, read-only. The file must not become shorter while it is mapped: the
/// system ends a process (SIGBUS) that reads behind the new end.
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

 private:
  std::span<const std::byte> bytes_;  // empty for an empty file, which cannot be mapped
};

}  // namespace eqt::data
