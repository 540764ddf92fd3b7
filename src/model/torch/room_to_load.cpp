// SPDX-License-Identifier: Apache-2.0
// Refuses to start where LibTorch and OpenBLAS have no room: what they do at a limit is no
// sentence.

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "core/address_space.hpp"
#include "core/error.hpp"
#include "core/units.hpp"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace eqt::model {
namespace {

// The address space of LibTorch's tables when the program is loaded, and of a thread of OpenBLAS
// for each core, measured on x86-64 with 2 cores.
constexpr std::size_t kLoadBytes = 192 * kMib;
constexpr std::size_t kLoadBytesPerCore = 72 * kMib;

/// Runs before any library does.
void require_room_to_load(int, char**, char**) {
  const long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  if (has_addresses(kLoadBytes + static_cast<std::size_t>(cores) * kLoadBytesPerCore)) return;
  constexpr std::string_view kSentence =
      "equant-train: usage: expected room for LibTorch and OpenBLAS in this process's addresses, "
      "found too little; raise the limit (ulimit -v, ulimit -d)\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
  _exit(static_cast<int>(Kind::usage));
}

__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeLibraries)(int, char**, char**) = require_room_to_load;

}  // namespace
}  // namespace eqt::model

#endif
