// The folder that a run writes to: claimed before training, never taken from another run.

#pragma once

#include <string>

namespace eqt::app {

/// What to do with results that a run folder holds.
enum class Results { refuse, replace, keep };

/// Holds the folder from construction to destruction.
class RunFolder {
 public:
  /// Creates `path` if needed and locks it.
  /// @throws Error{usage} when it is in use, or holds results that are neither to be replaced nor
  /// to be kept; Error{output} when it cannot be written.
  RunFolder(const std::string& path, Results results);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Whether a run wrote its summary here.
  bool holds_finished_run() const;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int lock_;
};

}  // namespace eqt::app
