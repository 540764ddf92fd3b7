#include "app/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"

namespace eqt::app {
namespace {

namespace fs = std::filesystem;

constexpr std::array kResults = {"metrics.jsonl", "summary.json", "model.pt", "gradients"};

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
  for (const char* name : kResults) {
    if (!fs::exists(file(name)) || results == Results::replace) continue;
    close(lock_);
    fail(Kind::usage,
         "run folder {} holds another run's {}; try another --out, --resume or --overwrite", path,
         name);
  }
  // What is overwritten goes now: a run that fails must not leave an older run's summary beside its
  // own records.
  for (const char* name : kResults) fs::remove_all(file(name), error);
}

bool RunFolder::holds_finished_run() const { return fs::exists(file("summary.json")); }

RunFolder::~RunFolder() {
  // Unlinked while locked, so nobody can hold a lock on a file that is about to vanish.
  unlink(file(".lock").c_str());
  close(lock_);
}

}  // namespace eqt::app
