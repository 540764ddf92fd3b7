// SPDX-License-Identifier: Apache-2.0
// Finds run folders; read_run.cpp reads them.

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "core/error.hpp"
#include "figures/text.hpp"
#include "metrics/run_files.hpp"
#include "report/read_run.hpp"

namespace eqt::report {
namespace {

namespace fs = std::filesystem;

// A sweep contains run folders, a folder of sweeps contains sweeps, and there may be one more
// level.
constexpr int kDeepest = 3;

bool is_run_folder(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(
      std::initializer_list<const char*>{metrics::run_files::kConfig, metrics::run_files::kRecords,
                                         metrics::run_files::kSummary},
      [&](const char* file) { return fs::is_regular_file(folder / file, ignored); });
}

void collect(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  if (is_run_folder(folder)) {
    found.push_back(folder);
    return;  // subfolders have only checkpoints and reports
  }
  if (depth == kDeepest) return;
  std::error_code error;
  std::vector<fs::path> below;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) below.push_back(entry.path());
  std::ranges::sort(below);
  for (const fs::path& path : below) collect(path, depth + 1, found);
}

/// Equal for all names of one folder.
std::string identity_of(const fs::path& folder) {
  std::error_code error;
  const fs::path canonical = fs::canonical(folder, error);
  return error ? folder.string() : canonical.string();
}

}  // namespace

std::vector<std::string> run_folders(const std::vector<std::string>& paths) {
  std::vector<std::string> folders;
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error))
      fail(Kind::usage,
           "report: expected a run folder or a folder with some, found no folder at {}; name what "
           "--out was given",
           visible(path));
    std::vector<fs::path> found;
    collect(path, 0, found);
    if (found.empty())
      fail(Kind::data,
           "report: expected runs (config.json, metrics.jsonl, summary.json) in {} or below, found "
           "none; name what --out was given",
           visible(path));
    for (const fs::path& folder : found)
      if (seen.insert(identity_of(folder)).second) folders.push_back(folder.string());
  }
  return folders;
}

}  // namespace eqt::report
