// SPDX-License-Identifier: Apache-2.0
// Files of results: every write error is reported.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace eqt::metrics {

/// A file that is written from its beginning or its end; each write() goes to the system at once.
class OutputFile {
 public:
  enum class Begin {
    empty,  // creates it, or empties one that is there
    at_end  // creates it, or appends
  };

  /// A symbolic link named `path` is refused, and so is a pipe.
  /// @throws Error{output}
  explicit OutputFile(std::string path, Begin begin = Begin::empty);
  /// Takes a file that is open for writing; `path` is for messages.
  OutputFile(std::string path, int descriptor);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// @throws Error{output} unless all bytes were written
  void write(std::string_view bytes);
  /// Does what write() does, but whole pages go to the disk without a copy in the system's cache,
  /// if memory and file system allow it. That takes much less processor time, and the data set
  /// stays in the cache. @pre nothing was written yet
  /// @throws Error{output} unless all bytes were written
  void write_past_cache(std::string_view bytes);
  /// Waits until the bytes are on the disk. @throws Error{output}
  void sync();
  /// If the file was removed or moved away, readers do not find the data at its path.
  /// @throws Error{output} unless `path` still names this file
  void require_in_place() const;
  /// @throws Error{output} if the system reports a late error; further calls do nothing
  void close();

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// Call it before opening a file: opening a pipe may wait forever for its other end.
/// @throws Error{output} if a pipe or a socket is called `path`
void require_no_pipe(const std::string& path);

/// True if `descriptor` is the file that `path` now names.
bool is_open_at(int descriptor, const std::string& path) noexcept;

/// @throws Error{output} unless `path` names nothing, or a regular file that this process may
/// change
void require_replaceable(const std::string& path);

/// True if `name` is that of a file which was to become `of`, and which a killed process has left.
bool is_left_of(std::string_view name, std::string_view of) noexcept;

/// A file that is whole when its name appears: it is written in the same folder under a name that
/// nothing else has, and replaces what is called `path` at last. Processes and threads that write
/// the same file do not disturb each other; the last one counts.
class AtomicFile {
 public:
  /// @throws Error{output} as require_replaceable(), or if a file cannot be made in the folder
  explicit AtomicFile(std::string path);
  /// Without publish(), what `path` names is unchanged and nothing else is left.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// See OutputFile.
  void write(std::string_view bytes) { file_->write(bytes); }
  void write_past_cache(std::string_view bytes) { file_->write_past_cache(bytes); }
  /// The file is on the disk under its name, with the permissions of the one that it replaces.
  /// Nothing can be written after it. @throws Error{output} as the constructor
  void publish();

 private:
  std::string path_, temporary_;
  std::optional<OutputFile> file_;
};

/// Makes `path` contain exactly `bytes`, by an AtomicFile. @throws Error{output}
void write_atomically(const std::string& path, std::string_view bytes);

/// Makes `path` contain exactly `parts`, one after the other, by an AtomicFile.
/// @throws Error{output}
void write_atomically(const std::string& path, std::span<const std::string_view> parts);

/// Makes files that were made or renamed in `folder` durable. Some file systems cannot do that, and
/// the files themselves are already safe, so a failure is no error.
void sync_folder(const std::string& folder);

}  // namespace eqt::metrics
