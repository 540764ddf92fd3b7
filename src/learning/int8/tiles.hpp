// SPDX-License-Identifier: Apache-2.0
// The inner loops: tiles of sums of products, for each family of instructions.
//
// A tile is kRows rows by one or two blocks of 16 lanes. A step multiplies 4 bytes of each row (4
// bytes, or a pair of 16 bits) by 4 bytes of each lane and adds the products to the tile's sums;
// AMX takes 16 steps at once. A panel has the lanes' operands in the order in which they are read:
// [step][16 lanes][4 bytes] for each block.
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
inline constexpr std::size_t kMostRows = 32;   // of a tile

/// Pixels of a convolution: row i's result in lane l is
/// (sum - correction[l]) * (scales[i] * lane_scales[l]).
struct StoreTiles {
  std::size_t tiles;               // one after the other, each of kRows rows
  const std::byte* const* rows;    // (tiles * kRows)
  float* const* to;                // (tiles * kRows) of lane 0
  const float* scales;             // (tiles * kRows)
  const std::ptrdiff_t* runs;      // (run_count) where steps begin, relative to a row [bytes]
  std::size_t run_count, steps;    // steps of each run
  const std::byte* panel;          // run_count * steps, and zeros up to whole products
  std::size_t block_bytes;         // from a block to the next
  const std::int32_t* correction;  // (lanes, padded to 16)
  const float* lane_scales;        // (lanes, padded to 16)
  std::size_t lanes;               // of all blocks
  std::byte* copies;               // of TileKernels::copied_rows rows, copy_bytes each
  std::size_t copy_bytes;
};

/// Samples that are summed as integers.
struct GradientGroup {
  std::size_t runs;
  std::size_t steps;  // of each run
  float scale;
};

/// A tile of a weight gradient: for each group, to[i][l] += (sum - correction[i]) * scale.
struct GradientTile {
  const std::byte* rows;       // [run][step][kRows][4 bytes], or as `turn` has them
  std::size_t row_count;       // that exist
  const std::byte* panel;      // of the first block
  const std::ptrdiff_t* runs;  // where steps begin in each block [bytes]
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
  void (*store)(const StoreTiles&);
  void (*accumulate[2])(const GradientTile&);  // for 1 and 2 blocks; null above `blocks`
  // Repeats the product without memory, `repetitions` times; returns the multiply-adds.
  std::size_t (*repeat)(std::size_t repetitions);
  std::size_t product_steps = 1;  // of a product; a run of a gradient has whole products
  std::size_t copied_rows = 0;    // that store() copies at a time
  // Makes a block, [step][16 rows][4 bytes] of whole products, the rows from first_row on of a
  // tile, [product][kRows][step][4 bytes]. Null if rows of gradients are read in steps.
  void (*turn)(const std::byte* block, std::size_t steps, std::size_t first_row,
               std::byte* tile) = nullptr;
  // Prepare this thread for store() and accumulate(), and undo it (TileScope); null if nothing is
  // needed.
  void (*begin)() = nullptr, (*end)() = nullptr;
};

extern const TileKernels kAmxInt8Tiles, kAvx2PairTiles, kAvx512VnniTiles, kAvxVnniTiles;
extern const TileKernels kNeonLongTiles, kNeonDotTiles;

}  // namespace eqt::int8
