// SPDX-License-Identifier: Apache-2.0
// A file's bytes in the address space, read from the disk when they are first used.

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

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

}  // namespace eqt::data
