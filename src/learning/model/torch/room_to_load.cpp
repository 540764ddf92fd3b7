// SPDX-License-Identifier: Apache-2.0
// Refuses to start where LibTorch and OpenBLAS have no room: what they do at a limit is no
// sentence.

#include <sys/resource.h>
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

// A library's table of a few hundred KiB on the stack is no rarity [bytes].
constexpr rlim_t kLeastStack = kMib;

[[noreturn]] void refuse(std::string_view sentence) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, sentence.data(), sentence.size());
  _exit(static_cast<int>(Kind::usage));
}

/// Runs before any library does.
void require_room_to_load(int, char**, char**) {
  rlimit stack = {};
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kLeastStack)
    refuse(
        "equant-train: usage: expected room for a stack of at least 1 MiB for each thread, found "
        "less; raise the limit (ulimit -s 8192)\n");
  const long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  if (has_addresses(kLoadBytes + static_cast<std::size_t>(cores) * kLoadBytesPerCore)) return;
  refuse(
      "equant-train: usage: expected room for LibTorch and OpenBLAS in this process's addresses, "
      "found too little; raise the limit (ulimit -v, ulimit -d)\n");
}

__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeLibraries)(int, char**, char**) = require_room_to_load;

}  // namespace
}  // namespace eqt::model

#endif
