// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/memory_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"

namespace eqt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNumberFile = "/checkpoints/memory";  // in the run folder
constexpr const char* kOwnerFile = "/run";                  // in memory: which run folder it is of
constexpr int kHexDigits = 16;
constexpr FileLimits kShortFile{
    .what = "the number or the folder of a run", .max_bytes = 8192, .remedy = "remove it"};

std::string base_folder() {
  const char* const given = std::getenv("EQT_MEMORY_FOLDER");
  return fmt::format("{}/equant-train-{}", given == nullptr ? "/dev/shm" : given, ::geteuid());
}

std::string folder_of(std::uint64_t number) {
  return fmt::format("{}/{:016x}", base_folder(), number);
}

/// Reads 16 hexadecimal digits; 0 for any other text.
std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const bool good = error == std::errc() && end == text.data() + text.size();
  return good && text.size() == kHexDigits ? number : 0;
}

/// Makes a folder for this user alone, unless it is there.
/// @throws Error{output} if it cannot be made, is another user's, or others may write to it
void make_private(const std::string& folder) {
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    fail(Kind::output, "cannot make the folder {} for states in memory: {}", folder,
         std::strerror(errno));
  struct stat found {};
  const bool good = ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                    found.st_uid == ::geteuid() && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!good)
    fail(Kind::output,
         "{}: expected a folder for states in memory that belongs to this user, and to which no "
         "other can write, found another; remove it, or name another place by EQT_MEMORY_FOLDER",
         folder);
}

void remove_states(const std::string& folder) noexcept {
  try {
    StateFolder::at(folder).remove_all();
  } catch (const std::exception&) {
    return;  // no error: see the declaration of close_memory()
  }
  ::unlink((folder + kOwnerFile).c_str());
  ::rmdir(folder.c_str());
}

/// Removes folders in memory whose run folder is gone, or is that of another run now.
void remove_forgotten() {
  for (const fs::directory_entry& entry : metrics::entries_of(base_folder())) {
    const std::uint64_t number = number_of(entry.path().filename().string());
    std::error_code error;
    if (number == 0 || !fs::is_regular_file(entry.path().string() + kOwnerFile, error)) continue;
    const std::string owner = read_whole_file(entry.path().string() + kOwnerFile, kShortFile);
    if (number_in_memory(owner) != number) remove_states(entry.path().string());
  }
}

}  // namespace

StateFolder memory_folder(std::uint64_t number) { return StateFolder::at(folder_of(number)); }

std::uint64_t number_in_memory(const std::string& run_folder) noexcept {
  try {
    std::error_code error;
    if (!fs::is_regular_file(run_folder + kNumberFile, error)) return 0;
    std::string text = read_whole_file(run_folder + kNumberFile, kShortFile);
    if (text.ends_with('\n')) text.pop_back();
    return number_of(text);
  } catch (const std::exception&) {
    return 0;
  }
}

void open_memory(const std::string& run_folder, std::uint64_t number) {
  EQT_CHECK(number != 0, "states in memory of run 0");
  make_private(base_folder());
  std::error_code error;
  fs::create_directories(run_folder + "/checkpoints", error);
  if (error)
    fail(Kind::output, "cannot make the folder {}/checkpoints: {}; check its permissions",
         run_folder, error.message());
  // The number comes first: remove_forgotten() of another run removes a folder without it.
  if (const std::uint64_t before = number_in_memory(run_folder); before != number) {
    if (before != 0) remove_states(folder_of(before));
    metrics::write_atomically(run_folder + kNumberFile, fmt::format("{:016x}\n", number));
  }
  make_private(folder_of(number));
  metrics::write_atomically(folder_of(number) + kOwnerFile, fs::absolute(run_folder).string());
  try {
    remove_forgotten();
  } catch (const Error&) {
    return;  // another run is removing them, too
  }
}

void close_memory(const std::string& run_folder) noexcept {
  const std::uint64_t number = number_in_memory(run_folder);
  if (number != 0) remove_states(folder_of(number));
  ::unlink((run_folder + kNumberFile).c_str());
  // These stay if they hold other files. On other hosts than rank 0's the folder was made for this.
  ::rmdir((run_folder + "/checkpoints").c_str());
  ::rmdir(run_folder.c_str());
}

}  // namespace eqt::checkpoint
