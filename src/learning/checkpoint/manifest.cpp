// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/state_file.hpp"
#include "checkpoint/take.hpp"
#include "core/error.hpp"

namespace eqt::checkpoint {
namespace {

constexpr std::string_view kBegin = "{\n  \"format\": ", kStep = ",\n  \"step\": ",
                           kRanks = ",\n  \"ranks\": ", kSet = ",\n  \"set\": \"",
                           kFiles = "\",\n  \"files\": [\n", kName = "    {\"name\": \"rank-",
                           kOf = "-of-", kBytes = ".eqt\", \"bytes\": ", kHash = ", \"hash\": \"",
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

const ManifestEntry* Manifest::find(Rank rank) const noexcept {
  const auto found = std::ranges::find(files, rank, &ManifestEntry::rank);
  return found == files.end() ? nullptr : &*found;
}

std::string text_of(const Manifest& manifest) {
  std::string text = fmt::format("{}{}{}{}{}{}{}{:016x}{}", kBegin, kFormatVersion, kStep,
                                 manifest.step, kRanks, manifest.ranks, kSet, manifest.set, kFiles);
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
              take(rest, kSet, manifest.set, kHex) && take(rest, kFiles);
  while (good && !rest.starts_with(kEnd)) good = take_entry(rest, manifest);
  if (good && rest == kEnd) return manifest;
  fail(Kind::data,
       "{}: expected the list of a checkpoint's files, found other text at byte {}; remove it if "
       "the checkpoint's files are undamaged, which can be checked without it",
       origin, text.size() - rest.size());
}

bool begins_like_manifest(std::string_view text) noexcept { return text.starts_with(kBegin); }

}  // namespace eqt::checkpoint
