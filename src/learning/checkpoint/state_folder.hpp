// SPDX-License-Identifier: Apache-2.0
// The folder with a rank's checkpoints: checkpoints/step-00000120/rank-3-of-4.eqt, and the list of
// the files of a set, manifest.json.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/state_file.hpp"
#include "core/layout.hpp"

namespace eqt::checkpoint {

/// One line of manifest.json, the list of a set's files.
struct ManifestEntry {
  Rank rank = 0;
  std::uint64_t bytes = 0, hash = 0;  // StateFile::hash()

  bool operator==(const ManifestEntry&) const = default;
};

/// manifest.json of a set: its files, and the save that they belong to.
struct Manifest {
  StepId step = 0;
  int ranks = 1;
  std::uint64_t set = 0;  // FileHead::set
  std::vector<ManifestEntry> files;

  /// The entry of this rank's file; null if there is none.
  const ManifestEntry* find(Rank rank) const noexcept {
    const auto found = std::ranges::find(files, rank, &ManifestEntry::rank);
    return found == files.end() ? nullptr : &*found;
  }
};

std::string text_of(const Manifest& manifest);

/// Reads what text_of() made.
/// @param origin the file, for error messages
/// @throws Error{data} unless the text is exactly that
Manifest read_manifest(std::string_view text, std::string_view origin);

/// True if a file with this beginning was written as a manifest, damaged or not.
bool begins_like_manifest(std::string_view text) noexcept;

/// A file with a valid head.
struct FoundFile {
  FileHead head;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;    // StateFile::hash()
  bool in_manifest = false;  // its set was once complete on all ranks
  bool in_memory = false;    // of the host, not in the run folder; set by open_newest()

  bool operator==(const FoundFile&) const = default;
};

/// Other ranks' files may be in the same folder.
class StateFolder {
 public:
  /// @param run_folder may not exist yet
  explicit StateFolder(const std::string& run_folder) : path_(run_folder + "/checkpoints") {}
  /// @param path the folder of the sets itself, which may not exist yet
  static StateFolder at(std::string path) {
    StateFolder folder("");
    folder.path_ = std::move(path);
    return folder;
  }

  const std::string& path() const noexcept { return path_; }
  std::string set_path(StepId step) const;
  std::string file_path(StepId step, Rank rank, int ranks) const;

  /// True if there is no set: no folder with a set's name that contains a file of a set.
  /// @throws Error{output} if the folder cannot be read
  bool empty() const;
  /// The files whose heads agree with their names, their lengths and the manifest beside them,
  /// newest first; at most kMaxFiles.
  /// @param damaged gets a sentence about each file that has such a name but is not valid
  /// @throws Error{data} if the folder cannot be read
  std::vector<FoundFile> list(std::vector<std::string>& damaged) const;
  static constexpr std::size_t kMaxFiles = 65536;

  /// @throws Error{data} if it cannot be read or does not have this many bytes
  std::vector<std::byte> read(const FoundFile& file) const;
  /// Makes the set's folder if needed, and removes the manifest of an earlier save of this step.
  /// The file is on the disk when this returns. No symbolic link is followed except `checkpoints`.
  /// @throws Error{output}; then files are as before, and are checked without a manifest
  void write(const FileHead& head, std::span<const std::byte> bytes) const;
  /// Records that the set is complete on all ranks. Failing to write it is no error, because the
  /// files can be checked without it.
  void write_manifest(const FileHead& head, std::span<const ManifestEntry> entries) const noexcept;
  /// Removes files that have the name of a state file and begin like one, or are empty, and then
  /// folders that are empty. Everything else stays, and so does a set that cannot be removed.
  void remove(StepId step) const noexcept;
  /// Removes such files and folders of all sets. @throws Error{output} if a file cannot be removed
  void remove_all() const;

 private:
  std::string path_;
};

}  // namespace eqt::checkpoint
