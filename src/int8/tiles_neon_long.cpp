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
    const auto* pairs = reinterpret_cast<const std::int16_t*>(p);
    return {vreinterpret_s8_s16(vld1_dup_s16(pairs)), vreinterpret_s8_s16(vld1_dup_s16(pairs + 1))};
  }
  static Panel panel(const std::byte* p) {
    const int16x8_t pairs = vreinterpretq_s16_s8(bytes(p));
    const int16x8_t sorted = vuzp1q_s16(pairs, pairs), rest = vuzp2q_s16(pairs, pairs);
    return {vreinterpret_s8_s16(vget_low_s16(sorted)), vreinterpret_s8_s16(vget_low_s16(rest))};
  }
  static Sums dot(Sums sums, Row row, Panel panel) {
    const int16x8_t products = vmlal_s8(vmull_s8(row.first, panel.first), row.second, panel.second);
    return vpadalq_s16(sums, products);
  }
  static Sums dot_gradient(Sums sums, Row row, Panel panel) { return dot(sums, row, panel); }
};

}  // namespace

constinit const TileKernels kNeonLongTiles = tile_kernels<NeonLong>();

}  // namespace eqt::int8
