// SPDX-License-Identifier: Apache-2.0
#include "model/process_settings.hpp"

#include <atomic>
#include <limits>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace eqt::model {
namespace {

std::atomic<int> threads_of_process = 1;

}  // namespace

int own_threads() { return threads_of_process; }
void set_own_threads(int threads) { threads_of_process = threads; }

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

void flush_denormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 1u << 15, kDenormalsAreZero = 1u << 6;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#elif defined(__aarch64__)
  constexpr std::uint64_t kFlushToZero = std::uint64_t{1} << 24;
  std::uint64_t control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" ::"r"(control | kFlushToZero));
#endif
}

}  // namespace eqt::model
