#include "checkpoint/state_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "core/error.hpp"
#include "metrics/output_file.hpp"

namespace eqt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSet = "step-", kRank = "rank-", kOf = "-of-", kSuffix = ".eqt";
constexpr const char* kManifest = "manifest.json";

/// Takes `prefix` and then a number from the front of `text`.
template <typename Number>
bool take(std::string_view& text, std::string_view prefix, Number& number) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::optional<StepId> step_of(std::string_view name) {
  StepId step = 0;
  if (take(name, kSet, step) && name.empty()) return step;
  return {};
}

/// The head of a file with such a name; nothing for other files.
/// @throws Error{data} unless its name and its length say the same
std::optional<FoundFile> look_at(const fs::directory_entry& entry, StepId step) {
  FoundFile found;
  Rank rank = 0;
  int ranks = 0;
  const std::string name = entry.path().filename().string();
  std::string_view text = name;
  if (!take(text, kRank, rank) || !take(text, kOf, ranks) || text != kSuffix) return {};
  std::error_code error;
  found.bytes = entry.file_size(error);
  if (error) return {};
  std::ifstream file(entry.path(), std::ios::binary);
  std::vector<char> head(head_bytes());
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  const auto count = static_cast<std::size_t>(file.gcount());
  const std::string path = entry.path().string();
  found.head = read_head(std::as_bytes(std::span(head)).first(count), found.bytes, path);
  if (found.head.step == step && found.head.rank == rank && found.head.ranks == ranks) return found;
  fail(Kind::data,
       "{}: expected the state that its name says, found rank {} of {} after step {}; "
       "give it its name back",
       path, found.head.rank, found.head.ranks, found.head.step);
}

}  // namespace

std::string StateFolder::set_path(StepId step) const {
  return fmt::format("{}/{}{:08}", path_, kSet, step);
}

std::string StateFolder::file_path(StepId step, Rank rank, int ranks) const {
  return fmt::format("{}/{}{}{}{}{}", set_path(step), kRank, rank, kOf, ranks, kSuffix);
}

bool StateFolder::empty() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (step_of(entry.path().filename().string())) return false;
  }
  return true;
}

std::vector<FoundFile> StateFolder::list(std::vector<std::string>& damaged) const {
  std::error_code error;
  std::vector<StepId> steps;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && steps.size() < kMostFiles) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater());
  std::vector<FoundFile> found;
  for (const StepId step : steps) {
    const bool in_manifest = fs::exists(fs::path(set_path(step)) / kManifest, error);
    for (const auto& entry : fs::directory_iterator(set_path(step), error)) {
      if (found.size() == kMostFiles) return found;
      try {
        auto file = look_at(entry, step);
        if (!file) continue;
        file->in_manifest = in_manifest;
        found.push_back(*file);
      } catch (const Error& refused) {
        damaged.emplace_back(refused.what());
      }
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
  metrics::sync_folder(path_);
  metrics::write_atomically(file_path(head.step, head.rank, head.ranks),
                            {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                            {.past_cache = true});
}

void StateFolder::write_manifest(const FileHead& head,
                                 std::span<const ManifestEntry> entries) const noexcept {
  try {
    std::string text = fmt::format(
        "{{\n  \"format\": {},\n  \"step\": {},\n  \"ranks\": {},\n  \"start\": \"{:016x}\",\n"
        "  \"files\": [\n",
        kFormatVersion, head.step, head.ranks, head.start);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string path = file_path(head.step, entries[i].rank, head.ranks);
      text += fmt::format("    {{\"name\": \"{}\", \"bytes\": {}, \"hash\": \"{:016x}\"}}{}\n",
                          fs::path(path).filename().string(), entries[i].bytes, entries[i].hash,
                          i + 1 < entries.size() ? "," : "");
    }
    text += "  ]\n}\n";
    metrics::write_atomically(set_path(head.step) + "/" + kManifest, text,
                              {.suffix = fmt::format(".tmp{}", head.rank)});
  } catch (const std::exception&) {
    return;  // as promised
  }
}

void StateFolder::remove_all() const noexcept {
  std::error_code error;
  fs::remove_all(path_, error);
}

void StateFolder::remove(StepId step) const noexcept {
  std::error_code error;
  const fs::path set = set_path(step);
  // First what says that it is complete.
  fs::remove(set / kManifest, error);
  fs::remove_all(set, error);
}

}  // namespace eqt::checkpoint
