// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <system_error>

#include "checkpoint/state_file.hpp"
#include "core/error.hpp"
#include "metrics/folder.hpp"
#include "metrics/output_file.hpp"

namespace eqt::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Removes `prefix` from the front of `text`. @return whether it was there
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Removes `prefix` and then a number.
template <typename Number>
bool take(std::string_view& text, std::string_view prefix, Number& number, int base = 10) {
  if (!take(text, prefix)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// The text of a manifest, piece by piece; docs/checkpoints.md describes it.
constexpr std::string_view kOf = "-of-", kBegin = "{\n  \"format\": ", kStep = ",\n  \"step\": ",
                           kRanks = ",\n  \"ranks\": ", kSetNumber = ",\n  \"set\": \"",
                           kFiles = "\",\n  \"files\": [\n", kName = "    {\"name\": \"rank-",
                           kBytes = ".eqt\", \"bytes\": ", kHash = ", \"hash\": \"",
                           kNext = "\"},\n", kLast = "\"}\n", kEnd = "  ]\n}\n";

constexpr int kHex = 16;

/// Reads the line of one file. @return false if there is none
bool take_entry(std::string_view& rest, Manifest& manifest) {
  ManifestEntry entry;
  int ranks = 0;
  const bool good = take(rest, kName, entry.rank) && take(rest, kOf, ranks) &&
                    take(rest, kBytes, entry.bytes) && take(rest, kHash, entry.hash, kHex) &&
                    (take(rest, kNext) || take(rest, kLast)) && ranks == manifest.ranks &&
                    entry.rank >= 0 && entry.rank < ranks && manifest.find(entry.rank) == nullptr;
  if (good) manifest.files.push_back(entry);
  return good;
}

}  // namespace

std::string text_of(const Manifest& manifest) {
  std::string text =
      fmt::format("{}{}{}{}{}{}{}{:016x}{}", kBegin, kFormatVersion, kStep, manifest.step, kRanks,
                  manifest.ranks, kSetNumber, manifest.set, kFiles);
  for (const ManifestEntry& file : manifest.files) {
    const bool last = &file == &manifest.files.back();
    text += fmt::format("{}{}{}{}{}{}{}{:016x}{}", kName, file.rank, kOf, manifest.ranks, kBytes,
                        file.bytes, kHash, file.hash, last ? kLast : kNext);
  }
  return text += kEnd;
}

Manifest read_manifest(std::string_view text, std::string_view origin) {
  Manifest manifest;
  std::uint32_t format = 0;
  std::string_view rest = text;
  bool good = take(rest, kBegin, format) && format == kFormatVersion &&
              take(rest, kStep, manifest.step) && take(rest, kRanks, manifest.ranks) &&
              take(rest, kSetNumber, manifest.set, kHex) && take(rest, kFiles);
  while (good && !rest.starts_with(kEnd)) good = take_entry(rest, manifest);
  if (good && rest == kEnd) return manifest;
  fail(Kind::data,
       "{}: expected the list of a checkpoint's files, found other text at byte {}; remove it if "
       "the checkpoint's files are undamaged, which can be checked without it",
       origin, text.size() - rest.size());
}

bool begins_like_manifest(std::string_view text) noexcept { return text.starts_with(kBegin); }

namespace {

constexpr std::string_view kSet = "step-", kRank = "rank-", kSuffix = ".eqt", kTemporary = ".tmp";
constexpr const char* kManifest = "manifest.json";
constexpr std::uint64_t kLongestManifest = std::uint64_t{16} << 20;  // [bytes], of 200,000 ranks

std::optional<StepId> step_of(std::string_view name) {
  StepId step = 0;
  if (take(name, kSet, step) && name.empty()) return step;
  return {};
}

/// The name of a state file: "rank-3-of-4.eqt".
struct NamedState {
  Rank rank = 0;
  int ranks = 0;
};

std::optional<NamedState> state_of(std::string_view name) {
  NamedState state;
  if (take(name, kRank, state.rank) && take(name, kOf, state.ranks) && name == kSuffix)
    return state;
  return {};
}

/// Reads the beginning of a file, at most `most` bytes.
std::string beginning_of(const fs::path& path, std::size_t most) {
  std::string text(most, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// True if this program wrote it: a state, a manifest, or an unfinished file of either.
bool is_ours(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.symlink_status(error).type() != fs::file_type::regular) return false;
  std::string name = entry.path().filename().string();
  if (const std::size_t dot = name.rfind(kTemporary); dot != std::string::npos) name.resize(dot);
  const bool is_manifest = name == kManifest;
  if (!is_manifest && !state_of(name)) return false;
  const std::string begin = beginning_of(entry.path(), head_bytes());
  if (begin.empty()) return entry.file_size(error) == 0 && !error;
  return is_manifest ? begins_like_manifest(begin)
                     : begins_like_one(std::as_bytes(std::span(begin)));
}

/// Files of this program in a set's folder, the manifest first; none if the folder is a link.
std::vector<fs::path> our_files(const fs::path& set) {
  std::vector<fs::path> ours;
  std::error_code error;
  if (fs::symlink_status(set, error).type() != fs::file_type::directory) return ours;
  for (const fs::directory_entry& entry : metrics::entries_of(set)) {
    if (!is_ours(entry)) continue;
    const bool first = entry.path().filename() == kManifest;
    ours.insert(first ? ours.begin() : ours.end(), entry.path());
  }
  return ours;
}

/// @throws Error{output} if one of our files cannot be removed
void remove_ours(const fs::path& set) {
  const std::vector<fs::path> ours = our_files(set);
  for (const fs::path& file : ours) {
    std::error_code error;
    fs::remove(file, error);
    if (error)
      fail(Kind::output, "cannot remove {} of an earlier run: {}; choose another folder with --out",
           file.string(), error.message());
  }
  ::rmdir(set.c_str());  // it stays if it holds other files; a failed save may have left it empty
}

/// The manifest of a set; empty if there is none. @throws Error{data} if it is damaged
std::optional<Manifest> manifest_of(const std::string& set, StepId step) {
  const std::string path = set + "/" + kManifest;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  Manifest manifest = read_manifest(beginning_of(path, kLongestManifest), path);
  if (manifest.step == step) return manifest;
  fail(Kind::data, "{}: expected the list of step {}, found that of step {}; put it back", path,
       step, manifest.step);
}

/// A set consists of files of one save; a file of another save may have the right name, rank and
/// step.
/// @return whether the manifest names the file; false for one of another number of ranks
/// @throws Error{data} if it names another file in its place
bool is_named(const Manifest& manifest, const FoundFile& found, const std::string& path) {
  if (manifest.ranks != found.head.ranks) return false;
  const ManifestEntry* const named = manifest.find(found.head.rank);
  const bool same = named != nullptr && manifest.set == found.head.set &&
                    named->bytes == found.bytes && named->hash == found.hash;
  if (same) return true;
  fail(Kind::data,
       "{}: expected the file that {} names, of save {:016x}, found another, of save {:016x}; put "
       "this run's file back or resume from another checkpoint",
       path, kManifest, manifest.set, found.head.set);
}

/// The head of a file with the name of a state file; empty for other files.
/// @throws Error{data} unless its name, its length and the manifest agree
std::optional<FoundFile> look_at(const fs::directory_entry& entry, StepId step,
                                 const std::optional<Manifest>& manifest) {
  const auto named = state_of(entry.path().filename().string());
  if (!named) return {};
  FoundFile found;
  std::error_code error;
  found.bytes = entry.file_size(error);
  if (error) return {};
  const std::string begin = beginning_of(entry.path(), head_bytes());
  const auto head = std::as_bytes(std::span(begin));
  const std::string path = entry.path().string();
  found.head = read_head(head, found.bytes, path);
  found.hash = hash_in_head(head);
  if (found.head.step != step || found.head.rank != named->rank ||
      found.head.ranks != named->ranks) {
    fail(Kind::data,
         "{}: expected the state that its name says, found rank {} of {} after step {}; "
         "give it its name back",
         path, found.head.rank, found.head.ranks, found.head.step);
  }
  found.in_manifest = manifest && is_named(*manifest, found, path);
  return found;
}

}  // namespace

std::string StateFolder::set_path(StepId step) const {
  return fmt::format("{}/{}{:08}", path_, kSet, step);
}

std::string StateFolder::file_path(StepId step, Rank rank, int ranks) const {
  return fmt::format("{}/{}{}{}{}{}", set_path(step), kRank, rank, kOf, ranks, kSuffix);
}

bool StateFolder::empty() const {
  return std::ranges::none_of(metrics::entries_of(path_), [](const fs::directory_entry& entry) {
    return step_of(entry.path().filename().string()) && !our_files(entry.path()).empty();
  });
}

std::vector<FoundFile> StateFolder::list(std::vector<std::string>& damaged) const {
  std::vector<StepId> steps;
  for (const fs::directory_entry& entry : metrics::entries_of(path_, Kind::data)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && steps.size() < kMaxFiles) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater());
  std::vector<FoundFile> found;
  const auto unless_damaged = [&](const auto& look) {
    try {
      look();
    } catch (const Error& refused) {
      damaged.emplace_back(refused.what());
    }
  };
  for (const StepId step : steps) {
    std::optional<Manifest> manifest;
    std::vector<fs::directory_entry> entries;
    unless_damaged([&] { manifest = manifest_of(set_path(step), step); });
    unless_damaged([&] { entries = metrics::entries_of(set_path(step), Kind::data); });
    for (const fs::directory_entry& entry : entries) {
      if (found.size() == kMaxFiles) return found;
      unless_damaged([&] {
        if (const auto file = look_at(entry, step, manifest)) found.push_back(*file);
      });
    }
  }
  return found;
}

std::vector<std::byte> StateFolder::read(const FoundFile& file) const {
  const std::string path = file_path(file.head.step, file.head.rank, file.head.ranks);
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error || size != file.bytes) {
    fail(Kind::data, "{}: expected {} bytes, found {}; resume from another checkpoint", path,
         file.bytes, error ? error.message() : fmt::format("{}", size));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  std::ifstream stream(path, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (static_cast<std::uint64_t>(stream.gcount()) != size) {
    fail(Kind::data,
         "{}: expected {} bytes, found {} that can be read; resume from another "
         "checkpoint",
         path, size, stream.gcount());
  }
  return bytes;
}

void StateFolder::write(const FileHead& head, std::span<const std::byte> bytes) const {
  std::error_code error;
  const std::string set = set_path(head.step);
  fs::create_directories(set, error);
  if (error) {
    fail(Kind::output, "cannot make the folder {}: {}; check its permissions and the space left",
         set, error.message());
  }
  if (fs::is_symlink(set, error)) {
    fail(Kind::output,
         "{}: expected a folder or nothing, found a symbolic link, which checkpoints are not "
         "written through; remove it or choose another folder with --out",
         set);
  }
  // It would name files that this one replaces; the new manifest is written when all files are.
  ::unlink((set + "/" + kManifest).c_str());
  metrics::sync_folder(path_);
  metrics::AtomicFile file(file_path(head.step, head.rank, head.ranks));
  file.write_past_cache({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  file.publish();
}

void StateFolder::write_manifest(const FileHead& head,
                                 std::span<const ManifestEntry> entries) const noexcept {
  try {
    const std::string text = text_of({.step = head.step,
                                      .ranks = head.ranks,
                                      .set = head.set,
                                      .files = {entries.begin(), entries.end()}});
    metrics::write_atomically(set_path(head.step) + "/" + kManifest, text);
  } catch (const std::exception&) {
    return;  // no error: see the declaration
  }
}

void StateFolder::remove_all() const {
  for (const fs::directory_entry& entry : metrics::entries_of(path_))
    if (step_of(entry.path().filename().string())) remove_ours(entry.path());
  ::rmdir(path_.c_str());  // it stays if it holds other files
}

void StateFolder::remove(StepId step) const noexcept {
  try {
    remove_ours(set_path(step));
  } catch (const std::exception&) {
    return;  // no error: see the declaration
  }
}

}  // namespace eqt::checkpoint
