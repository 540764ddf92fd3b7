// The folder that a run writes to: claimed before training, never taken from another run.

#pragma once

#include <string>

namespace eqt::app {

/// Holds the folder from construction to destruction.
class RunFolder {
 public:
  /// Creates `path` if needed and locks it. With `overwrite`, removes the results that it holds.
  /// @throws Error{usage} when it is in use, or holds results and `overwrite` is false;
  /// Error{output} when it cannot be written.
  RunFolder(const std::string& path, bool overwrite);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int lock_;
};

}  // namespace eqt::app
