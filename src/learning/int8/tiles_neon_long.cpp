// SPDX-License-Identifier: Apache-2.0
// smull, smlal and sadalp, for processors without sdot: two products of bytes fit 16 bits, because
// one operand of each is never -128.
#include "int8/neon-inl.hpp"

namespace eqt::int8 {
namespace {

struct NeonLong : Neon {
  struct Row {
    int8x8_t first, second;  // the pairs of a step, each in all lanes
  };
  struct Panel {
    int8x8_t first, second;  // [4 lanes][2 bytes]
  };

  static Row row(const std::byte* p) {
    // In one load: loads of 16 bits would pass through general registers.
    const auto* step = reinterpret_cast<const std::int32_t*>(p);
    const int16x4_t pairs = vreinterpret_s16_s32(vld1_dup_s32(step));
    return {vreinterpret_s8_s16(vdup_lane_s16(pairs, 0)),
            vreinterpret_s8_s16(vdup_lane_s16(pairs, 1))};
  }
  static Panel panel(const std::byte* p) {
    const int16x8_t pairs = vreinterpretq_s16_s8(bytes(p));
    const int16x8_t sorted = vuzp1q_s16(pairs, pairs), rest = vuzp2q_s16(pairs, pairs);
    return {vreinterpret_s8_s16(vget_low_s16(sorted)), vreinterpret_s8_s16(vget_low_s16(rest))};
  }
  static void keep(Row& row) { asm volatile("" : "+w"(row.first), "+w"(row.second)); }
  static Sums dot(Sums sums, Row row, Panel panel) {
    const int16x8_t products = vmlal_s8(vmull_s8(row.first, panel.first), row.second, panel.second);
    sums = vpadalq_s16(sums, products);
    // Keeps the order of the source: GCC's own needs more registers than there are.
    asm volatile("" : "+w"(sums));
    return sums;
  }
  static Sums dot_gradient(Sums sums, Row row, Panel panel) { return dot(sums, row, panel); }
};

}  // namespace

constinit const TileKernels kNeonLongTiles = tile_kernels<NeonLong>();

}  // namespace eqt::int8
