// The folder in which a rank finds its checkpoints: checkpoints/step-00000120/rank-3-of-4.eqt.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/state_file.hpp"
#include "core/layout.hpp"

namespace eqt::checkpoint {

/// A file whose head is good.
struct FoundFile {
  FileHead head;
  std::uint64_t bytes = 0;
  bool in_manifest = false;  // its set was complete on all ranks once

  bool operator==(const FoundFile&) const = default;
};

/// One line of a manifest.
struct ManifestEntry {
  Rank rank = 0;
  std::uint64_t bytes = 0, hash = 0;
};

/// Files of other ranks may or may not be in the same folder.
class StateFolder {
 public:
  /// @param run_folder need not exist
  explicit StateFolder(const std::string& run_folder) : path_(run_folder + "/checkpoints") {}

  const std::string& path() const noexcept { return path_; }
  std::string set_path(StepId step) const;
  std::string file_path(StepId step, Rank rank, int ranks) const;

  /// Nothing is there that looks like a set.
  bool empty() const;
  /// The files whose heads fit their names and lengths, newest first; at most kMostFiles.
  /// @param damaged gets a sentence about each that has the name of one and is none
  std::vector<FoundFile> list(std::vector<std::string>& damaged) const;
  static constexpr std::size_t kMostFiles = 65536;

  /// @throws Error{data} if it cannot be read or has not this many bytes
  std::vector<std::byte> read(const FoundFile& file) const;
  /// Makes the set's folder if needed. On the disk when it returns.
  /// @throws Error{output}; then what was there before is there still
  void write(const FileHead& head, std::span<const std::byte> bytes) const;
  /// Says that the set is complete on all ranks. A manifest that cannot be written is no error: the
  /// files prove themselves.
  void write_manifest(const FileHead& head, std::span<const ManifestEntry> entries) const noexcept;
  /// A set that cannot be removed stays.
  void remove(StepId step) const noexcept;
  void remove_all() const noexcept;

 private:
  std::string path_;
};

}  // namespace eqt::checkpoint
