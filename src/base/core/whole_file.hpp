// SPDX-License-Identifier: Apache-2.0
// A whole file in memory, no longer than a limit.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace eqt {

/// The fields say what a file is to its reader.
struct FileLimits {
  std::string_view what;    // "a vocabulary", as the sentence names it
  std::uint64_t max_bytes;  // [bytes] of the longest file that is read
  std::string_view remedy;  // what to try
  Kind kind = Kind::data;   // of the error
};

/// The bytes of a regular file. Pipes and devices are refused without waiting for them.
/// @throws Error{limits.kind} that names the file, if it cannot be read, is no regular file, has
///   more than limits.max_bytes, or changes its length while it is read
std::string read_whole_file(const std::filesystem::path& file, const FileLimits& limits);
std::vector<std::byte> read_whole_bytes(const std::filesystem::path& file,
                                        const FileLimits& limits);

}  // namespace eqt
