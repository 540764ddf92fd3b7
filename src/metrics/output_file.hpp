// Files of results: complete or an error, never silently short.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace eqt::metrics {

/// A file that is written from its beginning or its end, each write() handed to the system at once.
class OutputFile {
 public:
  enum class Begin {
    empty,   // creates it, or empties one that is there
    at_end,  // creates it, or goes on
    created  // creates it; one that is there is an error
  };

  /// A symbolic link called `path` is refused, wherever it leads, and so is a pipe.
  /// @throws Error{output}
  explicit OutputFile(std::string path, Begin begin = Begin::empty);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// @throws Error{output} unless all bytes were taken
  void write(std::string_view bytes);
  /// The same, but what fills whole pages goes to the disk without a copy in the system's cache
  /// where memory and file system allow it: much less work for the processor, and the cache keeps
  /// the data set. @pre nothing was written yet
  /// @throws Error{output} unless all bytes were taken
  void write_past_cache(std::string_view bytes);
  /// Waits until the bytes are on the disk. @throws Error{output}
  void sync();
  /// What is written to a file that was removed or moved away is lost to whoever looks for it at
  /// its path. @throws Error{output} unless this file is the one that is there
  void require_in_place() const;
  /// @throws Error{output} if the system reports a late error; further calls do nothing
  void close();

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// Before a file is opened: a pipe may wait for its other end for ever.
/// @throws Error{output} if a pipe or a socket is called `path`
void require_no_pipe(const std::string& path);

/// Whether `descriptor` is open on what is called `path` now.
bool is_open_at(int descriptor, const std::string& path) noexcept;

struct AtomicWrite {
  std::string suffix = ".tmp";  // of the temporary file; of its own for each process that may write
  bool past_cache = false;      // OutputFile::write_past_cache()
};

/// Makes `path` hold exactly `bytes`: writes a temporary file beside it, syncs and renames it. What
/// has the temporary file's name, from an earlier try, goes; no symbolic link is followed, that
/// called `path` is replaced. After a failure `path` is as it was and the temporary file is gone.
/// @throws Error{output}
void write_atomically(const std::string& path, std::string_view bytes, const AtomicWrite& how = {});

/// Likewise with `parts` one after the other.
/// @pre one part, or not past the cache
void write_atomically(const std::string& path, std::span<const std::string_view> parts,
                      const AtomicWrite& how = {});

/// Makes what was made or renamed in `folder` durable. Some file systems cannot, and the files
/// themselves are already safe, so a failure is no error.
void sync_folder(const std::string& folder);

}  // namespace eqt::metrics
