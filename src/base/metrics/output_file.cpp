// SPDX-License-Identifier: Apache-2.0
#include "metrics/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.hpp"

namespace eqt::metrics {
namespace {

// Alignment of memory and file for writing past the cache: the largest that disks need.
constexpr std::size_t kPage = 4096;

constexpr std::string_view kTemporary = ".tmp";  // before the number of a process

[[noreturn]] void cannot(std::string_view what, const std::string& path, int error) {
  fail(Kind::output, "cannot {} {}: {}; check the folder, its permissions and the space left", what,
       path, std::generic_category().message(error));
}

bool is_link(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISLNK(found.st_mode);
}

const char* what_is(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a folder";
  return S_ISFIFO(mode) || S_ISSOCK(mode) ? "a pipe or a socket" : "a device";
}

}  // namespace

void require_no_pipe(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return;
  if (!S_ISFIFO(found.st_mode) && !S_ISSOCK(found.st_mode)) return;
  fail(Kind::output,
       "{}: expected a regular file or nothing, found a pipe or a socket; remove it or choose "
       "another folder",
       path);
}

OutputFile::OutputFile(std::string path, Begin begin) : path_(std::move(path)) {
  // O_NONBLOCK, because opening a pipe would wait for its reader.
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
                  (begin == Begin::empty ? O_TRUNC : O_APPEND);
  descriptor_ = ::open(path_.c_str(), how, 0666);
  const int error = errno;
  if (descriptor_ >= 0 || error == ENXIO) require_no_pipe(path_);
  if (descriptor_ >= 0) return;
  if (error == ELOOP && is_link(path_)) {
    fail(Kind::output,
         "{}: expected a file or nothing, found a symbolic link, which results are not written "
         "through; remove it or choose another folder",
         path_);
  }
  cannot("open for writing", path_, error);
}

OutputFile::OutputFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) cannot("write to", path_, written < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::write_past_cache(std::string_view bytes) {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage == 0;
  if (flags >= 0 && aligned && ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0) {
    while (bytes.size() >= kPage) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size() / kPage * kPage);
      if (written < 0 && errno == EINTR) continue;
      // write() below reports the same errors, even a full disk.
      if (written <= 0) break;
      bytes.remove_prefix(static_cast<std::size_t>(written));
      if (written % static_cast<ssize_t>(kPage) != 0) break;
    }
    if (::fcntl(descriptor_, F_SETFL, flags) != 0) cannot("write to", path_, errno);
  }
  write(bytes);
}

void OutputFile::sync() {
  // EINVAL: a device, which cannot be synced.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) cannot("sync", path_, errno);
}

void OutputFile::require_in_place() const {
  if (is_open_at(descriptor_, path_)) return;
  struct stat open {};
  const bool gone = ::fstat(descriptor_, &open) == 0 && open.st_nlink == 0;
  fail(Kind::output,
       "{}: expected the file that the run writes to, found that it was {}; what was written since "
       "is lost, start the run again and leave its folder where it is",
       path_, gone ? "removed" : "moved away or replaced");
}

bool is_open_at(int descriptor, const std::string& path) noexcept {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

void OutputFile::close() {
  if (descriptor_ < 0) return;
  if (::close(std::exchange(descriptor_, -1)) != 0) cannot("close", path_, errno);
}

void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

bool is_left_of(std::string_view name, std::string_view of) noexcept {
  if (!name.starts_with(of)) return false;
  name.remove_prefix(of.size());
  if (!name.starts_with(kTemporary)) return false;
  name.remove_prefix(kTemporary.size());
  return !name.empty() && name.find_first_not_of("0123456789-") == std::string_view::npos;
}

void require_replaceable(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return;
  if (!S_ISREG(found.st_mode))
    fail(Kind::output, "{}: expected a regular file or nothing, found {}; choose another name",
         path, what_is(found.st_mode));
  if (::access(path.c_str(), W_OK) != 0) cannot("replace", path, errno);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  require_replaceable(path_);
  int descriptor = -1;
  for (int number = 0; descriptor < 0; ++number) {
    temporary_ = fmt::format("{}{}{}-{}", path_, kTemporary, ::getpid(), number);
    descriptor = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST && errno != EINTR)
      cannot("open for writing", path_, errno);
  }
  file_.emplace(path_, descriptor);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::publish() {
  require_replaceable(path_);
  struct stat old {};
  // Some file systems have no permissions, and the file is as good without.
  if (::lstat(path_.c_str(), &old) == 0) (void)::chmod(temporary_.c_str(), old.st_mode & 0777);
  file_->sync();
  file_->close();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    cannot("rename the temporary file to", path_, errno);
  temporary_.clear();
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  sync_folder(folder.empty() ? "." : folder.string());
}

void write_atomically(const std::string& path, std::string_view bytes) {
  write_atomically(path, std::span(&bytes, 1));
}

void write_atomically(const std::string& path, std::span<const std::string_view> parts) {
  AtomicFile file(path);
  for (const std::string_view bytes : parts) file.write(bytes);
  file.publish();
}

}  // namespace eqt::metrics
