// SPDX-License-Identifier: Apache-2.0
// The folder that a run writes to. It is locked before training, and another run's folder is never
// used.

#pragma once

#include <memory>
#include <string>
#include <vector>

namespace eqt::app {

/// This says how to treat results that a run folder already has.
enum class Results { refuse, replace, keep };

/// The folder of dumped gradients.
std::string gradient_folder(const std::string& run_folder);

/// Returns true if a run writes, or reads when it is resumed, the file `path`, which need not be
/// there. Its name tells, in the folder of a run or in one below.
bool is_record_of_a_run(const std::string& path);

/// To be called before a verb works: the file that it is to write must be nobody's.
/// @param option the verb's: "--out"
/// @param inputs files that the verb reads; those that are not there count as none
/// @throws Error{usage} for one of the inputs and for a record of a run, Error{output} as
/// metrics::require_replaceable()
void require_free(const std::string& option, const std::string& path,
                  const std::vector<std::string>& inputs);

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
  /// @throws Error{usage} when it is in use, or has results, or files that a run would write, and
  /// these are to be refused;
  /// Error{output} when it cannot be written, or a folder has the name of a result, or what is to
  /// be continued is no regular file.
  RunFolder(const std::string& path, Results results);

  /// Removes the results that are to be replaced, evaluations of them, and what killed runs have
  /// left unfinished. Called when the run begins, so that a run that is refused before does not
  /// change the older one.
  /// @param goes_on from a checkpoint: the results stay
  /// @throws Error{output}
  void begin(bool goes_on = false);
  /// Returns true if begin() or the run replaces the file, which the run may want to read.
  bool replaces(const std::string& file) const;
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
