// SPDX-License-Identifier: Apache-2.0
// Files of results: every write error is reported.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace eqt::metrics {

/// A file that is written from its beginning or its end; each write() goes to the system at once.
class OutputFile {
 public:
  enum class Begin {
    empty,   // creates it, or empties one that is there
    at_end,  // creates it, or appends
    created  // creates it; one that is there is an error
  };

  /// A symbolic link named `path` is refused, and so is a pipe.
  /// @throws Error{output}
  explicit OutputFile(std::string path, Begin begin = Begin::empty);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// @throws Error{output} unless all bytes were written
  void write(std::string_view bytes);
  /// The same, but whole pages go to the disk without a copy in the system's cache, if memory and
  /// file system allow it. That takes much less processor time, and the data set stays in the
  /// cache. @pre nothing was written yet
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

struct AtomicWrite {
  std::string suffix = ".tmp";  // of the temporary file; each process that may write has its own
  bool past_cache = false;      // OutputFile::write_past_cache()
};

/// Makes `path` contain exactly `bytes`: writes a temporary file in the same folder, syncs and
/// renames it. An old temporary file of that name is removed. No symbolic link is followed; one
/// named `path` is replaced. After a failure `path` is unchanged and the temporary file is removed.
/// @throws Error{output}
void write_atomically(const std::string& path, std::string_view bytes, const AtomicWrite& how = {});

/// The same with `parts`, one after the other.
/// @pre one part, or not past the cache
void write_atomically(const std::string& path, std::span<const std::string_view> parts,
                      const AtomicWrite& how = {});

/// Makes files that were made or renamed in `folder` durable. Some file systems cannot do that, and
/// the files themselves are already safe, so a failure is no error.
void sync_folder(const std::string& folder);

}  // namespace eqt::metrics
