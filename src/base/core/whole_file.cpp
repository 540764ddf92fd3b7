// SPDX-License-Identifier: Apache-2.0
#include "core/whole_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/descriptor.hpp"

namespace eqt {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const FileLimits& limits,
                         std::string_view reason) {
  fail(limits.kind, "expected {} at {}, but {}; {}", limits.what, file.string(), reason,
       limits.remedy);
}

/// Opens the file and finds its length.
class WholeFile {
 public:
  WholeFile(const std::filesystem::path& file, const FileLimits& limits);
  std::uint64_t bytes() const { return bytes_; }
  /// @param out bytes() bytes
  void read(char* out) const;

 private:
  std::size_t read_up_to(char* out, std::size_t count) const;

  const std::filesystem::path& file_;
  const FileLimits& limits_;
  Descriptor opened_;
  std::uint64_t bytes_ = 0;
};

WholeFile::WholeFile(const std::filesystem::path& file, const FileLimits& limits)
    : file_(file), limits_(limits), opened_(file) {
  struct stat facts = {};
  if (opened_.number() < 0 || fstat(opened_.number(), &facts) != 0)
    refuse(file, limits, std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) refuse(file, limits, std::strerror(EISDIR));
  if (!S_ISREG(facts.st_mode)) refuse(file, limits, "it is no regular file");
  bytes_ = static_cast<std::uint64_t>(facts.st_size);
  if (bytes_ > limits.max_bytes)
    fail(limits.kind, "expected {} of at most {} bytes at {}, found {}; {}", limits.what,
         limits.max_bytes, file.string(), bytes_, limits.remedy);
}

void WholeFile::read(char* out) const {
  char behind = 0;
  if (read_up_to(out, bytes_) != bytes_ || read_up_to(&behind, 1) != 0)
    refuse(file_, limits_, "its length changed while it was read");
}

/// Fewer than `count` bytes at the end of the file.
std::size_t WholeFile::read_up_to(char* out, std::size_t count) const {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::read(opened_.number(), out + done, count - done);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(file_, limits_, std::strerror(errno));
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& file, const FileLimits& limits) {
  const WholeFile opened(file, limits);
  std::string text(opened.bytes(), '\0');
  opened.read(text.data());
  return text;
}

std::vector<std::byte> read_whole_bytes(const std::filesystem::path& file,
                                        const FileLimits& limits) {
  const WholeFile opened(file, limits);
  std::vector<std::byte> bytes(opened.bytes());
  opened.read(reinterpret_cast<char*>(bytes.data()));
  return bytes;
}

}  // namespace eqt
