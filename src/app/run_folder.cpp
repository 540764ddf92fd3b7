// SPDX-License-Identifier: Apache-2.0
#include "app/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
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

constexpr std::array kResults = {files::kRecords,     files::kSummary,    files::kLastWeights,
                                 files::kBestWeights, files::kOwnNetwork, files::kPreprocessing};
// What other verbs made of them: it does not keep a run from its folder, and ends with them.
constexpr std::array kMadeOfResults = {"model.safetensors", "model.torchscript.pt",
                                       "model.state_dict.pt"};
constexpr std::array kEvaluationFiles = {report::kEvaluationFile, "classes.csv", "confusion.csv",
                                         "confusion.svg", "confusion.png"};
constexpr std::string_view kEvents = "events.out.tfevents.";

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

/// A report shows it as that of the run. Files of others stay.
void remove_evaluation(const fs::path& folder) {
  const fs::path evaluation = folder / report::kEvaluationFolder;
  std::error_code error;
  if (fs::symlink_status(evaluation, error).type() != fs::file_type::directory) return;
  if (!metrics::is_there(evaluation / report::kEvaluationFile)) return;
  for (const char* name : kEvaluationFiles)
    if (!fs::is_directory(evaluation / name, error)) remove_old(evaluation / name);
}

}  // namespace

std::string gradient_folder(const std::string& run_folder) { return run_folder + "/gradients"; }

FolderLock::FolderLock(const std::string& folder) : path_(folder + "/.lock") {
  const auto cannot = [&](const char* what) {
    fail(Kind::output, "run folder {}: cannot {} its file .lock: {}; try another --out", folder,
         what, std::strerror(errno));
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
}

void RunFolder::begin() {
  if (results_ == Results::refuse) return;  // there were no results
  remove_evaluation(path_);
  if (results_ != Results::replace) return;
  // From here on no summary of an older run may be left, even if this run fails.
  for (const fs::path& result : results_in(path_)) remove_old(result);
  for (const char* name : kMadeOfResults) remove_old(fs::path(path_) / name);
}

bool RunFolder::holds_finished_run() const { return metrics::is_there(file(files::kSummary)); }

}  // namespace eqt::app
