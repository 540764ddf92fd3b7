#include "app/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"

namespace eqt::app {
namespace {

namespace fs = std::filesystem;

constexpr std::array kResults = {"config.json", "metrics.jsonl", "summary.json", "model.pt"};

void remove_results(const std::string& path) {
  for (const char* name : kResults) fs::remove(fs::path(path) / name);
}

}  // namespace

RunFolder::RunFolder(const std::string& path, bool overwrite) : path_(path) {
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
  for (const char* name : kResults) {
    if (!fs::exists(file(name)) || overwrite) continue;
    close(lock_);
    fail(Kind::usage, "run folder {} holds another run's {}; try another --out, or --overwrite",
         path, name);
  }
  if (overwrite) remove_results(path);
}

RunFolder::~RunFolder() {
  // Unlinked while locked, so nobody can hold a lock on a file that is about to vanish.
  unlink(file(".lock").c_str());
  close(lock_);
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream out(file(name), std::ios::binary);
  out << text << '\n';
  out.close();
  if (!out) fail(Kind::output, "{} could not be written: {}", file(name), std::strerror(errno));
}

}  // namespace eqt::app
