// SPDX-License-Identifier: Apache-2.0
#include "data/files.hpp"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <system_error>

#include "core/error.hpp"

namespace eqt::data {
namespace {

namespace fs = std::filesystem;

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

GzipFile open_gzip(const fs::path& file, std::string_view remedy) {
  std::error_code error;
  // A pipe or device would block or never end.
  if (!fs::is_regular_file(file, error)) {
    fail(Kind::data, "expected a data file {}, found none{}; {}", file.string(),
         fs::exists(file, error) ? " but something else of that name" : "", remedy);
  }
  errno = 0;
  GzipFile opened(gzopen(file.c_str(), "rb"));
  if (!opened) {
    const char* reason = errno == 0 ? "out of memory" : std::strerror(errno);
    fail(Kind::data, "cannot open the data file {}: {}; {}", file.string(), reason, remedy);
  }
  return opened;
}

/// The error that stopped reading, other than the end of the file; "" if there was none.
std::string damage_of(gzFile_s* file) {
  int status = Z_OK;
  gzerror(file, &status);
  switch (status) {
    case Z_OK:
    case Z_STREAM_END:
      return "";
    case Z_ERRNO:
      return fmt::format(" before reading failed ({})", std::strerror(errno));
    case Z_BUF_ERROR:
      return " before the compressed file ends too early";
    case Z_DATA_ERROR:
      return " before the compressed file is damaged";
    default:
      return fmt::format(" before zlib failed (status {})", status);
  }
}

}  // namespace

std::vector<std::uint8_t> read_exactly(const fs::path& file, std::size_t expected,
                                       std::string_view remedy) {
  const GzipFile opened = open_gzip(file, remedy);
  // With one byte more than expected, a longer file can be distinguished from a correct one.
  std::vector<std::uint8_t> bytes(expected + 1);
  std::size_t found = 0;
  while (found < bytes.size()) {
    constexpr std::size_t kMaxBytesAtOnce = std::size_t{1} << 20;  // [bytes] gzread counts in int
    const auto count = static_cast<unsigned>(std::min(bytes.size() - found, kMaxBytesAtOnce));
    const int got = gzread(opened.get(), bytes.data() + found, count);
    if (got <= 0) break;
    found += static_cast<std::size_t>(got);
  }
  const std::string damage = damage_of(opened.get());
  if (!damage.empty() || found != expected) {
    const char* packing = gzdirect(opened.get()) != 0 ? "" : " when decompressed";
    fail(Kind::data, "{}: expected {} bytes{}, found {}{}{}; {}", file.string(), expected, packing,
         found > expected ? "more than " : "", std::min(found, expected), damage, remedy);
  }
  bytes.resize(expected);
  return bytes;
}

fs::path find_file(const fs::path& folder, std::initializer_list<std::string_view> names,
                   std::string_view remedy) {
  std::error_code error;
  for (const std::string_view name : names) {
    if (fs::exists(folder / name, error)) return folder / name;
  }
  fail(Kind::data, "expected the data file {} in {}, found none; {}", *names.begin(),
       folder.string(), remedy);
}

std::string find_test_part(const std::function<bool(std::string_view)>& is_there,
                           std::string_view ending, std::vector<std::string>& notes) {
  std::string found;
  for (const std::string_view name : {"test", "val", "valid", "validation"}) {
    if (!is_there(name)) continue;
    if (!found.empty()) {
      notes.push_back(
          fmt::format("{}{} is left out, since {}{} is the test set", name, ending, found, ending));
      continue;
    }
    found = name;
    if (name != "test") notes.push_back(fmt::format("{}{} is the test set", name, ending));
  }
  return found;
}

fs::path find_folder(const fs::path& folder, std::string_view subfolder, std::string_view remedy) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail(Kind::data, "expected a folder with data files at {}, found {}; {}", folder.string(),
         fs::exists(folder, error) ? "something else" : "nothing", remedy);
  }
  return fs::is_directory(folder / subfolder, error) ? folder / subfolder : folder;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMax = 40;  // [bytes]
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMax)) quoted += c >= ' ' && c <= '~' ? c : '?';
  return quoted + (text.size() > kMax ? "...\"" : "\"");
}

}  // namespace eqt::data
