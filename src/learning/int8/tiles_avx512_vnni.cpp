// SPDX-License-Identifier: Apache-2.0
// vpdpbusd on 512 bits: 64 products of unsigned by signed bytes, summed by fours.
#include <immintrin.h>

#include "int8/tiles-inl.hpp"

namespace eqt::int8 {
namespace {

struct Avx512Vnni {
  static constexpr std::size_t kRows = 8, kMostBlocks = 2, kWidth = 16;
  static constexpr int kOffset = 128;
  using Element = std::uint8_t;
  using Sums = __m512i;
  using Row = __m512i;
  using Panel = __m512i;

  static Sums zero() { return _mm512_setzero_si512(); }
  static Row row(const std::byte* p) {
    std::int32_t bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return _mm512_set1_epi32(bytes);
  }
  static Panel panel(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void keep(Row& row) { asm volatile("" : "+v"(row)); }
  static Sums dot(Sums sums, Row row, Panel panel) { return _mm512_dpbusd_epi32(sums, row, panel); }
  static Sums dot_gradient(Sums sums, Row row, Panel panel) {
    return _mm512_dpbusd_epi32(sums, panel, row);
  }
  // _mm512_cvtepi32_ps() makes GCC 12 warn of a vector that is not initialized.
  static __m512 to_floats(__m512i sums) { return _mm512_maskz_cvtepi32_ps(0xFFFF, sums); }
  static void store(float* to, Sums sums, const std::int32_t* correction, float scale,
                    const float* lane_scales) {
    const __m512i exact = _mm512_sub_epi32(sums, _mm512_loadu_si512(correction));
    const __m512 factor = _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_loadu_ps(lane_scales));
    _mm512_storeu_ps(to, _mm512_mul_ps(to_floats(exact), factor));
  }
  static void add(float* to, Sums sums, std::int32_t correction, float scale) {
    const __m512i exact = _mm512_sub_epi32(sums, _mm512_set1_epi32(correction));
    const __m512 product = _mm512_mul_ps(to_floats(exact), _mm512_set1_ps(scale));
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), product));
  }
};

}  // namespace

constinit const TileKernels kAvx512VnniTiles = tile_kernels<Avx512Vnni>();

}  // namespace eqt::int8
