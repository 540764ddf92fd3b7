// SPDX-License-Identifier: Apache-2.0
// Counts allocations of C++ code and remembers the largest; MPI's C code uses malloc and is not
// counted. Include it in one source file of a test program, because it replaces the global
// operators.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace eqt::test {
inline std::atomic<std::size_t> g_allocations{0};
inline std::atomic<std::size_t> g_largest_allocation{0};  // since it was set to 0 [bytes]
inline std::size_t allocations() { return g_allocations; }

inline void note_allocation(std::size_t bytes) {
  ++g_allocations;
  std::size_t largest = g_largest_allocation;
  while (bytes > largest && !g_largest_allocation.compare_exchange_weak(largest, bytes)) {
  }
}
}  // namespace eqt::test

void* operator new(std::size_t bytes) {
  eqt::test::note_allocation(bytes);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// Otherwise AddressSanitizer's operator would be used with the one above.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  eqt::test::note_allocation(bytes);
  return std::malloc(bytes);
}
// Inlined, free() beside the operators above looks mismatched to GCC.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
