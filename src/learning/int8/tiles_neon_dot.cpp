// SPDX-License-Identifier: Apache-2.0
// sdot: 16 products of signed bytes, summed by fours.
#include "int8/neon-inl.hpp"

namespace eqt::int8 {
namespace {

struct NeonDot : Neon {
  using Row = int8x16_t;
  using Panel = int8x16_t;

  static Row row(const std::byte* p) {
    return vreinterpretq_s8_s32(vld1q_dup_s32(reinterpret_cast<const std::int32_t*>(p)));
  }
  static Panel panel(const std::byte* p) { return bytes(p); }
  static void keep(Row& row) { asm volatile("" : "+w"(row)); }
  static Sums dot(Sums sums, Row row, Panel panel) { return vdotq_s32(sums, panel, row); }
  static Sums dot_gradient(Sums sums, Row row, Panel panel) { return dot(sums, row, panel); }
};

}  // namespace

constinit const TileKernels kNeonDotTiles = tile_kernels<NeonDot>();

}  // namespace eqt::int8
