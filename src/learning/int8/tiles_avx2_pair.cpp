// SPDX-License-Identifier: Apache-2.0
// vpmaddwd: 16 products of 16 bits, summed by pairs; exact, unlike vpmaddubsw, which saturates.
#include "int8/avx2-inl.hpp"

namespace eqt::int8 {
namespace {

struct Avx2Pair : Avx2 {
  static constexpr int kOffset = 0;
  using Element = std::int16_t;

  static Sums dot(Sums sums, Row row, Panel panel) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(row, panel));
    // Keeps the order of the source: GCC's own needs more registers than there are.
    asm volatile("" : "+x"(sums));
    return sums;
  }
  static Sums dot_gradient(Sums sums, Row row, Panel panel) { return dot(sums, row, panel); }
};

}  // namespace

constinit const TileKernels kAvx2PairTiles = tile_kernels<Avx2Pair>();

}  // namespace eqt::int8
