// SPDX-License-Identifier: Apache-2.0
// What the two families on 256 bits have in common. Empty where the compiler may not use AVX2.
#ifdef __AVX2__
#include <immintrin.h>

#include "int8/tiles-inl.hpp"

namespace eqt::int8 {
namespace {

struct Avx2 {
  static constexpr std::size_t kRows = 6, kMostBlocks = 1, kWidth = 8;
  using Sums = __m256i;
  using Row = __m256i;
  using Panel = __m256i;

  static Sums zero() { return _mm256_setzero_si256(); }
  static Row row(const std::byte* p) {
    std::int32_t bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return _mm256_set1_epi32(bytes);
  }
  static Panel panel(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void keep(Row& row) { asm volatile("" : "+x"(row)); }
  static void store(float* to, Sums sums, const std::int32_t* correction, float scale,
                    const float* lane_scales) {
    const __m256i exact = _mm256_sub_epi32(sums, panel(correction));
    const __m256 factor = _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_loadu_ps(lane_scales));
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(exact), factor));
  }
  static void add(float* to, Sums sums, std::int32_t correction, float scale) {
    const __m256i exact = _mm256_sub_epi32(sums, _mm256_set1_epi32(correction));
    const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(exact), _mm256_set1_ps(scale));
    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), product));
  }
};

}  // namespace
}  // namespace eqt::int8

#endif  // __AVX2__
