// SPDX-License-Identifier: Apache-2.0
// The inner loops: tiles of sums of products, for each family of instructions.
//
// A tile is kRows rows by one or two blocks of 16 lanes. A step multiplies 4 bytes of each row (4
// bytes, or a pair of 16 bits) by 4 bytes of each lane and adds the products to the tile's sums. A
// panel has the lanes' operands in the order in which they are read: [step][16 lanes][4 bytes] for
// each block.
//
// The units that define the functions are compiled for processors that this one may not be, so
// neither they nor this header include anything with inline functions.

#pragma once

#include <cstddef>
#include <cstdint>

namespace eqt::int8 {

inline constexpr std::size_t kLanes = 16;      // of a block
inline constexpr std::size_t kStepBytes = 4;   // of a row or lane
inline constexpr std::size_t kPanelStep = 64;  // bytes of a block
inline constexpr std::size_t kMostRows = 8;    // of a tile

/// Pixels of a convolution: row i's result in lane l is
/// (sum - correction[l]) * (scales[i] * lane_scales[l]).
struct StoreTiles {
  std::size_t tiles;               // one after the other, each of kRows rows
  const std::byte* const* rows;    // (tiles * kRows)
  float* const* to;                // (tiles * kRows) of lane 0
  const float* scales;             // (tiles * kRows)
  const std::ptrdiff_t* runs;      // (run_count) where steps begin, relative to a row [bytes]
  std::size_t run_count, steps;    // steps of each run
  const std::byte* panel;          // of the first block: run_count * steps
  std::size_t block_bytes;         // from a block to the next
  const std::int32_t* correction;  // (16 * blocks)
  const float* lane_scales;        // (16 * blocks)
  std::size_t first_lane;          // channel of the first lane
  std::size_t lanes;               // that exist: more than 16 * (blocks - 1)
};

/// Samples that are summed as integers.
struct GradientGroup {
  std::size_t runs;
  float scale;
};

/// A tile of a weight gradient: for each group, to[i][l] += (sum - correction[i]) * scale.
struct GradientTile {
  const std::byte* rows;       // [run][step][kRows][4 bytes]
  const std::byte* panel;      // of the first block
  const std::ptrdiff_t* runs;  // where steps begin in each block [bytes]
  std::size_t steps;           // of each run
  const GradientGroup* groups;
  std::size_t group_count;
  std::size_t block_bytes;
  float* const* to;                // (kRows) of lane 0
  const std::int32_t* correction;  // (group_count, kRows)
  std::size_t lanes;
};

/// TileKernels says what the passes must know of a family.
struct TileKernels {
  std::size_t element_bytes;  // of an operand: 1, or 2 (then x is stored without its zero point)
  int offset;                 // what is added to x and to errors of dX, so that bytes are unsigned
  std::size_t rows;           // of a tile
  std::size_t blocks;         // the most that a tile has
  void (*store[2])(const StoreTiles&);         // for 1 and 2 blocks; null above `blocks`
  void (*accumulate[2])(const GradientTile&);  // the same
  // Repeats the product without memory, `repetitions` times; returns the multiply-adds.
  std::size_t (*repeat)(std::size_t repetitions);
};

extern const TileKernels kAvx2PairTiles, kAvx512VnniTiles, kAvxVnniTiles;
extern const TileKernels kNeonLongTiles, kNeonDotTiles;

}  // namespace eqt::int8
