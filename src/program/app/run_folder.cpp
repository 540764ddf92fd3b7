// SPDX-License-Identifier: Apache-2.0
#include "app/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"
#include "metrics/run_files.hpp"
#include "report/evaluation.hpp"

namespace eqt::app {
namespace {

namespace fs = std::filesystem;
namespace files = metrics::run_files;

constexpr std::array kResults = {files::kRecords,      files::kSummary,    files::kLastWeights,
                                 files::kBestWeights,  files::kOwnNetwork, files::kEncoder,
                                 files::kPreprocessing};
// Other verbs make these of the results. They do not keep a run from its folder, and end when it
// begins or goes on.
constexpr std::array kMadeOfResults = {"model.safetensors", "model.torchscript.pt", "model.onnx",
                                       "model.state_dict.pt"};
constexpr std::array kEvaluationFiles = {report::kEvaluationFile, "classes.csv", "confusion.csv",
                                         "confusion.svg", "confusion.png"};
constexpr std::string_view kEvents = "events.out.tfevents.";
constexpr const char* kLock = ".lock";

constexpr std::array kWritten = {files::kConfig,     files::kStarts,
                                 files::kDecisions,  files::kTimeline,
                                 files::kVocabulary, files::kTuned};  // beside results
constexpr const char* kFoldersOfRecords[] = {"checkpoints", "gradients"};

bool is_one_of(std::span<const char* const> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// Returns true for the name of a file in a run's own folder.
bool is_record(const std::string& name) {
  return is_one_of(kResults, name) || is_one_of(kWritten, name) || name == kLock ||
         name.starts_with(kEvents);
}

bool is_of_a_run(const fs::path& folder) {
  std::error_code error;
  return std::ranges::any_of(
      std::initializer_list<const char*>{files::kConfig, files::kRecords, files::kSummary},
      [&](const char* name) { return fs::is_regular_file(folder / name, error); });
}

/// Returns the folder that the file is in, or is to be in, without links; empty if there is none.
fs::path folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  std::error_code error;
  const fs::path folder = fs::canonical(parent.empty() ? fs::path(".") : parent, error);
  return error ? fs::path() : folder;
}

/// True if a run wrote it; the folder may contain other files.
bool is_gradient(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("step") && name.find(".rank") != std::string::npos &&
         (path.extension() == ".npy" || path.extension() == ".json");
}

/// The results of runs in `folder`, except checkpoints: files, and links with their names.
/// @throws Error{output} if a folder has the name of one
std::vector<fs::path> results_in(const std::string& folder) {
  std::vector<fs::path> found;
  const auto add = [&](const fs::path& path) {
    std::error_code error;
    if (fs::symlink_status(path, error).type() == fs::file_type::directory) {
      fail(Kind::output,
           "run folder {}: expected a file called {} or none, found a folder; move it away or try "
           "another --out",
           folder, path.filename().string());
    }
    found.push_back(path);
  };
  for (const char* name : kResults) {
    if (metrics::is_there(fs::path(folder) / name)) add(fs::path(folder) / name);
  }
  for (const fs::directory_entry& entry : metrics::entries_of(folder)) {
    if (entry.path().filename().string().starts_with(kEvents)) add(entry.path());
  }
  for (const fs::directory_entry& entry : metrics::entries_of(gradient_folder(folder))) {
    if (is_gradient(entry.path())) add(entry.path());
  }
  return found;
}

void remove_old(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error)
    fail(Kind::output, "cannot remove {} of an earlier run: {}; try another --out", path.string(),
         error.message());
}

/// Removes what killed runs have left of records: nobody else writes in a locked folder.
void remove_unfinished(const fs::path& folder) {
  for (const fs::directory_entry& entry : metrics::entries_of(folder)) {
    const std::string name = entry.path().filename().string();
    const auto left = [&](const char* record) { return metrics::is_left_of(name, record); };
    if (std::ranges::any_of(kResults, left) || std::ranges::any_of(kWritten, left))
      remove_old(entry.path());
  }
}

/// Reports show them as those of the run. Files of others stay.
void remove_evaluations(const fs::path& run) {
  for (const std::string& found : report::evaluation_folders(run.string())) {
    const fs::path folder = found;
    std::error_code error;
    for (const char* name : kEvaluationFiles)
      if (!fs::is_directory(folder / name, error)) remove_old(folder / name);
    if (fs::is_empty(folder, error)) remove_old(folder);
  }
}

}  // namespace

bool is_record_of_a_run(const std::string& path) {
  const fs::path folder = folder_of(path);
  const std::string name = fs::path(path).filename().string();
  if (is_of_a_run(folder)) return is_record(name);
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path())
    if (is_one_of(kFoldersOfRecords, at.filename().string()) && is_of_a_run(at.parent_path()))
      return true;
  return false;
}

void require_free(const std::string& option, const std::string& path,
                  const std::vector<std::string>& inputs) {
  metrics::require_replaceable(path);
  if (is_record_of_a_run(path))
    fail(Kind::usage,
         "{}: expected a file that is no record of a run, found {}, which belongs to the run in "
         "its folder; choose another name",
         option, path);
  for (const std::string& input : inputs) {
    std::error_code error;
    if (fs::equivalent(path, input, error))
      fail(Kind::usage,
           "{}: expected another file than those that are read, found {}, which is {}; choose "
           "another name",
           option, path, input == path ? "one of them" : input);
  }
}

std::string gradient_folder(const std::string& run_folder) { return run_folder + "/gradients"; }

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/" + kLock) {
  const auto cannot = [&](const char* what) {
    fail(Kind::output, "run folder {}: cannot {} its file {}: {}; try another --out", folder, what,
         kLock, std::strerror(errno));
  };
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ < 0) cannot("open");
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
      // The previous owner may have removed the file after it was opened; then the lock has no
      // effect.
      if (metrics::is_open_at(descriptor_, path_)) return;
      ::close(descriptor_);
      continue;
    }
    const int error = errno;
    ::close(descriptor_);
    errno = error;
    if (error != EWOULDBLOCK && error != EINTR) cannot("lock");
    if (error == EWOULDBLOCK)
      fail(Kind::usage, "run folder {} is in use by a running job; try another --out", folder);
  }
}

FolderLock::~FolderLock() {
  // Not if the folder was removed and made again: then the lock file belongs to another job.
  if (metrics::is_open_at(descriptor_, path_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

RunFolder::RunFolder(const std::string& path, Results results) : path_(path), results_(results) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    fail(Kind::output, "run folder {}: expected a writable folder, found: {}; try another --out",
         path, error.message());
  }
  lock_ = std::make_unique<FolderLock>(path);
  const std::vector<fs::path> found = results_in(path);
  if (!found.empty() && results == Results::refuse) {
    fail(Kind::usage,
         "run folder {} holds another run's {}; try another --out, --resume or --overwrite", path,
         found.front().filename().string());
  }
  if (results == Results::refuse)
    for (const char* name : kWritten)
      if (metrics::is_there(fs::path(path) / name))
        fail(Kind::usage,
             "run folder {}: expected a file called {} beside the results of a run or none, found "
             "one alone, which would be replaced; try another --out or --overwrite",
             path, name);
  // Better now than when the run ends.
  if (results == Results::keep)
    for (const fs::path& result : found) metrics::require_replaceable(result.string());
}

void RunFolder::begin(bool goes_on) {
  remove_unfinished(path_);
  if (results_ == Results::refuse) return;  // there were no results
  remove_evaluations(path_);
  for (const char* name : kMadeOfResults) remove_old(fs::path(path_) / name);
  if (goes_on) return;
  // From here on no summary of an older run may be left, even if this run fails.
  for (const fs::path& result : results_in(path_)) remove_old(result);
  if (results_ == Results::keep) return;  // what train.tune has chosen holds for this run, too
  remove_old(fs::path(path_) / files::kTuned);
}

bool RunFolder::replaces(const std::string& file) const {
  std::error_code error;
  return results_ == Results::replace && is_record(fs::path(file).filename().string()) &&
         fs::equivalent(folder_of(file), path_, error);
}

bool RunFolder::holds_finished_run() const { return metrics::is_there(file(files::kSummary)); }

}  // namespace eqt::app
