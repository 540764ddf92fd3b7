// The folder in which a rank finds its checkpoints: checkpoints/step-00000120/rank-3-of-4.eqt.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/state_file.hpp"
#include "core/layout.hpp"

namespace eqt::checkpoint {

/// A file whose head is good.
struct FoundFile {
  FileHead head;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;    // StateFile::hash()
  bool in_manifest = false;  // named there, so its set was complete on all ranks once

  bool operator==(const FoundFile&) const = default;
};

/// Files of other ranks may or may not be in the same folder.
class StateFolder {
 public:
  /// @param run_folder need not exist
  explicit StateFolder(const std::string& run_folder) : path_(run_folder + "/checkpoints") {}

  const std::string& path() const noexcept { return path_; }
  std::string set_path(StepId step) const;
  std::string file_path(StepId step, Rank rank, int ranks) const;

  /// No set of ours is there: no folder with a set's name that holds a file of one.
  /// @throws Error{output} if the folder cannot be read
  bool empty() const;
  /// The files whose heads fit their names, their lengths and the manifest beside them, newest
  /// first; at most kMostFiles.
  /// @param damaged gets a sentence about each that has the name of one and is none
  /// @throws Error{data} if the folder cannot be read
  std::vector<FoundFile> list(std::vector<std::string>& damaged) const;
  static constexpr std::size_t kMostFiles = 65536;

  /// @throws Error{data} if it cannot be read or has not this many bytes
  std::vector<std::byte> read(const FoundFile& file) const;
  /// Makes the set's folder if needed, and removes the manifest of an earlier save of this step. On
  /// the disk when it returns. No symbolic link is followed but one called `checkpoints`.
  /// @throws Error{output}; then what was there before is there still
  void write(const FileHead& head, std::span<const std::byte> bytes) const;
  /// Says that the set is complete on all ranks. A manifest that cannot be written is no error: the
  /// files prove themselves.
  void write_manifest(const FileHead& head, std::span<const ManifestEntry> entries) const noexcept;
  /// Removes the files that begin like a state file, or hold nothing, and have the name of one,
  /// then folders that are empty. Whatever else is there stays, and so does a set that cannot be
  /// removed.
  void remove(StepId step) const noexcept;
  /// Likewise all sets. @throws Error{output} if a file cannot be removed
  void remove_all() const;

 private:
  std::string path_;
};

}  // namespace eqt::checkpoint
