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

#include "app/gradient_dump.hpp"
#include "core/error.hpp"

namespace eqt::app {
namespace {

namespace fs = std::filesystem;

constexpr std::array kResults = {"metrics.jsonl", "summary.json", "model.pt", "preprocessing.json"};
constexpr std::string_view kEvents = "events.out.tfevents.";

/// Whether a run wrote it: the folder may hold files of its owner.
bool is_gradient(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("step") && name.find(".rank") != std::string::npos &&
         (path.extension() == ".npy" || path.extension() == ".json");
}

/// What runs leave in `folder`, but for checkpoints.
std::vector<fs::path> results_in(const std::string& folder) {
  std::vector<fs::path> found;
  for (const char* name : kResults) {
    if (fs::exists(fs::path(folder) / name)) found.push_back(fs::path(folder) / name);
  }
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().filename().string().starts_with(kEvents)) found.push_back(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(gradient_folder(folder), none)) {
    if (is_gradient(entry.path())) found.push_back(entry.path());
  }
  return found;
}

}  // namespace

RunFolder::RunFolder(const std::string& path, Results results) : path_(path) {
  std::error_code error;
  fs::create_directories(path, error);
  lock_ = open(file(".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (error || lock_ < 0) {
    fail(Kind::output, "run folder {}: expected a writable folder, found: {}; try another --out",
         path, error ? error.message() : std::strerror(errno));
  }
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    fail(Kind::usage, "run folder {} is in use by a running job; try another --out", path);
  }
  if (results == Results::keep) return;
  const std::vector<fs::path> found = results_in(path);
  if (!found.empty() && results == Results::refuse) {
    close(lock_);
    fail(Kind::usage,
         "run folder {} holds another run's {}; try another --out, --resume or --overwrite", path,
         found.front().filename().string());
  }
  // What is overwritten goes now: a run that fails must not leave an older run's summary beside its
  // own records.
  for (const fs::path& result : found) fs::remove(result, error);
}

bool RunFolder::holds_finished_run() const { return fs::exists(file("summary.json")); }

RunFolder::~RunFolder() {
  // Unlinked while locked, so nobody can hold a lock on a file that is about to vanish.
  unlink(file(".lock").c_str());
  close(lock_);
}

}  // namespace eqt::app
