// SPDX-License-Identifier: Apache-2.0
#include "core/whole_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/descriptor.hpp"
#include "core/error.hpp"

namespace eqt {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const FileLimits& limits,
                         std::string_view reason) {
  fail(Kind::data, "expected {} at {}, but {}; {}", limits.what, file.string(), reason,
       limits.remedy);
}

/// Up to `count` bytes; fewer at the end of the file.
std::size_t read_up_to(const Descriptor& from, char* out, std::size_t count,
                       const std::filesystem::path& file, const FileLimits& limits) {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = read(from.number(), out + done, count - done);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(file, limits, std::strerror(errno));
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& file, const FileLimits& limits) {
  const Descriptor opened(file);
  struct stat facts = {};
  if (opened.number() < 0 || fstat(opened.number(), &facts) != 0)
    refuse(file, limits, std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) refuse(file, limits, std::strerror(EISDIR));
  if (!S_ISREG(facts.st_mode)) refuse(file, limits, "it is no regular file");
  const auto bytes = static_cast<std::uint64_t>(facts.st_size);
  if (bytes > limits.max_bytes)
    fail(Kind::data, "expected {} of at most {} bytes at {}, found {}; {}", limits.what,
         limits.max_bytes, file.string(), bytes, limits.remedy);
  std::string text(bytes, '\0');
  char behind = 0;
  if (read_up_to(opened, text.data(), text.size(), file, limits) != text.size() ||
      read_up_to(opened, &behind, 1, file, limits) != 0)
    refuse(file, limits, "its length changed while it was read");
  return text;
}

}  // namespace eqt
