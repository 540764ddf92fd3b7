// SPDX-License-Identifier: Apache-2.0
// The folder that a run writes to. It is locked before training, and another run's folder is never
// used.

#pragma once

#include <memory>
#include <string>

namespace eqt::app {

/// How to treat results that a run folder already has.
enum class Results { refuse, replace, keep };

/// The folder of dumped gradients.
std::string gradient_folder(const std::string& run_folder);

/// A file called .lock, locked while a run has its folder; removed at the end.
class FolderLock {
 public:
  /// @throws Error{usage} when another process has it, Error{output} when it cannot be made
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::string path_;
  int descriptor_;
};

/// Keeps the folder locked from construction to destruction.
class RunFolder {
 public:
  /// Creates `path` if needed and locks it. Nothing is removed yet.
  /// @throws Error{usage} when it is in use, or has results and these are to be refused;
  /// Error{output} when it cannot be written, or a folder has the name of a result.
  RunFolder(const std::string& path, Results results);

  /// Removes the results that are to be replaced, and evaluations of them. Called when the run
  /// begins, so that a run that is refused before does not change the older one.
  /// @throws Error{output}
  void begin();
  const std::string& path() const { return path_; }
  /// True if a run wrote its summary here. @throws Error{output} if that cannot be determined
  bool holds_finished_run() const;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  std::unique_ptr<FolderLock> lock_;
  Results results_;
};

}  // namespace eqt::app
