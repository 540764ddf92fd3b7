// SPDX-License-Identifier: Apache-2.0
// Files of results: complete or an error, never cut short silently.

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

  /// A symbolic link named `path` is refused, wherever it points to, and so is a pipe.
  /// @throws Error{output}
  explicit OutputFile(std::string path, Begin begin = Begin::empty);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// @throws Error{output} unless all bytes were taken
  void write(std::string_view bytes);
  /// The same, but whole pages go to the disk without a copy in the system's cache, if memory and
  /// file system allow it. That is much less work for the processor, and the cache keeps the data
  /// set. @pre nothing was written yet
  /// @throws Error{output} unless all bytes were written
  void write_past_cache(std::string_view bytes);
  /// Waits until the bytes are on the disk. @throws Error{output}
  void sync();
  /// Data in a file that was removed or moved away are lost for a reader who looks at its path.
  /// @throws Error{output} unless `path` still names this file
  void require_in_place() const;
  /// @throws Error{output} if the system reports a late error; further calls do nothing
  void close();

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// To be called before opening a file: a pipe may wait for its other end for ever.
/// @throws Error{output} if a pipe or a socket is called `path`
void require_no_pipe(const std::string& path);

/// Whether `descriptor` is open on the file that `path` names now.
bool is_open_at(int descriptor, const std::string& path) noexcept;

struct AtomicWrite {
  std::string suffix = ".tmp";  // of the temporary file; each process that may write has its own
  bool past_cache = false;      // OutputFile::write_past_cache()
};

/// Makes `path` contain exactly `bytes`: writes a temporary file beside it, syncs and renames it.
/// An old temporary file of that name is removed. No symbolic link is followed; one named `path` is
/// replaced. After a failure `path` is unchanged and the temporary file is removed.
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
