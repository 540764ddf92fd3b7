// SPDX-License-Identifier: Apache-2.0
// manifest.json of a set: its files, and the save that they belong to. FORMAT.md describes the
// text.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.hpp"

namespace eqt::checkpoint {

/// One line of a manifest.
struct ManifestEntry {
  Rank rank = 0;
  std::uint64_t bytes = 0, hash = 0;  // StateFile::hash()

  bool operator==(const ManifestEntry&) const = default;
};

struct Manifest {
  StepId step = 0;
  int ranks = 1;
  std::uint64_t set = 0;  // FileHead::set
  std::vector<ManifestEntry> files;

  /// The entry of this rank's file; null if there is none.
  const ManifestEntry* find(Rank rank) const noexcept;
};

std::string text_of(const Manifest& manifest);

/// Reads what text_of() made.
/// @param origin the file, for error messages
/// @throws Error{data} unless the text is exactly that
Manifest read_manifest(std::string_view text, std::string_view origin);

/// True if a file with this beginning was written as a manifest, damaged or not.
bool begins_like_manifest(std::string_view text) noexcept;

}  // namespace eqt::checkpoint
