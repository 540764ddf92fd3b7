// SPDX-License-Identifier: Apache-2.0
// vpdpbusd on 256 bits, in the form of processors without AVX-512.
#include "int8/avx2-inl.hpp"

namespace eqt::int8 {
namespace {

struct AvxVnni : Avx2 {
  static constexpr int kOffset = 128;
  using Element = std::uint8_t;

  static Sums dot(Sums sums, Row row, Panel panel) {
    return _mm256_dpbusd_avx_epi32(sums, row, panel);
  }
  static Sums dot_gradient(Sums sums, Row row, Panel panel) {
    return _mm256_dpbusd_avx_epi32(sums, panel, row);
  }
};

}  // namespace

constinit const TileKernels kAvxVnniTiles = tile_kernels<AvxVnni>();

}  // namespace eqt::int8
