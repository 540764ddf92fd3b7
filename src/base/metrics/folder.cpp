// SPDX-License-Identifier: Apache-2.0
#include "metrics/folder.hpp"

#include <system_error>

namespace eqt::metrics {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot(Kind kind, const char* what, const fs::path& path,
                         const std::error_code& error) {
  fail(kind, "cannot {} {}: {}; check its permissions and what it is, or choose another folder",
       what, path.string(), error.message());
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  // A missing file also sets `error`.
  if (status.type() == fs::file_type::none) cannot(Kind::output, "look at", path, error);
  return status.type() != fs::file_type::not_found;
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder, Kind kind) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    entries.push_back(*entry);
  if (error) cannot(kind, "read the folder", folder, error);
  return entries;
}

}  // namespace eqt::metrics
