// SPDX-License-Identifier: Apache-2.0
// Prefetching for passes over arrays that are longer than caches.

#pragma once

#include <hwy/base.h>

#include <cstddef>
#include <cstdint>

namespace eqt::codec {

/// Prefetches for a pass that is about to work on `count` values from `at` on, 64 or a multiple. It
/// asks for as many of the lines that the pass reaches 4 to 28 KiB later, in turn from four pages.
/// Hardware prefetchers follow each page by itself, and one page at a time keeps too few lines
/// under way. It does nothing on other processors than x86, where it is not measured.
HWY_INLINE void prefetch_pages([[maybe_unused]] const float* at,
                               [[maybe_unused]] std::size_t count) {
#if HWY_ARCH_X86
  constexpr std::uintptr_t kPage = 4096, kPages = 4 * kPage;
  constexpr int kSecondLevel = 2;  // what is asked for so early would crowd the first-level cache
  for (std::size_t i = 0; i < count; i += 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(at + i);
    const auto first = (address & ~(kPages - 1)) + kPages + (address & (kPages - 1)) / 4;
    for (std::uintptr_t page = 0; page < kPages; page += kPage) {
      __builtin_prefetch(reinterpret_cast<const void*>(first + page), 0, kSecondLevel);
    }
  }
#endif
}

/// Serves a pass that is about to write 64 bytes at `to`. It asks for those that the pass writes 2
/// KiB later, because a store waits for the rest of its line. It does nothing on other processors
/// than x86.
HWY_INLINE void prefetch_output([[maybe_unused]] const std::byte* to) {
#if HWY_ARCH_X86
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(to) + 2048), 1);
#endif
}

}  // namespace eqt::codec
