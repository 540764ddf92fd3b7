// SPDX-License-Identifier: Apache-2.0
// All readers of files share these: the error for files that are not what they should be, and
// numbers in bytes. Private to this room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "weights/state_dict.hpp"

namespace eqt::weights {

/// Names what a file should hold.
enum class Holds : std::uint8_t { weights, script };

/// A file as its messages name it.
struct ForeignFile {
  ForeignFile(std::string its_path,
              Holds its_contents = Holds::weights)  // NOLINT: most hold weights
      : path(std::move(its_path)), holds(its_contents) {}
  std::string path;
  Holds holds;
};

/// @throws Error{data} with the expected format, `reason`, and how to write such a file
[[noreturn]] void refuse_file(const ForeignFile& file, const std::string& reason);

template <typename... Args>
[[noreturn]] void refuse(const ForeignFile& file, fmt::format_string<Args...> reason,
                         Args&&... args) {
  refuse_file(file, fmt::format(reason, std::forward<Args>(args)...));
}

/// The little-endian number of `count` bytes at `at`. @pre they are there, at most 8
inline std::uint64_t little_endian(std::span<const std::byte> bytes, std::size_t at,
                                   std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return value;
}

}  // namespace eqt::weights
