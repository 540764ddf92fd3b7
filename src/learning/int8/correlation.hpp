// SPDX-License-Identifier: Apache-2.0
// Products of a framed image with taps of weights: a forward pass, or the part of dX for input
// pixels that see the same taps. No copies of the image are made for the taps: a tap is a distance
// in the frame.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "int8/packing.hpp"
#include "int8/tiles.hpp"

namespace eqt::int8 {

/// The result's pixels (rows, columns). Pixel (i, j) begins at (row, column) + step (i, j) in the
/// frame and goes to (to_row, to_column) + to_step (i, j) of an image that is to_width wide.
struct PixelGrid {
  int rows = 0, columns = 0;
  int row = 0, column = 0, step = 1;
  int to_row = 0, to_column = 0, to_step = 1, to_width = 0;
};

/// (rows, columns) neighbouring pixels of the frame, the first at the result pixel's own place.
/// Those of a row are one run of values; what its last step reads behind them has weights of 0.
/// The weight of tap t, frame channel c and result channel l is
/// q[offsets[t] + c * channel_stride + l * lane_stride].
struct Taps {
  int rows = 0, columns = 0;
  std::vector<std::size_t> offsets;  // (rows * columns)
  std::size_t channel_stride = 0, lane_stride = 0;
};

class Correlation {
 public:
  /// @param lanes  channels of the result
  Correlation(const TileKernels& kernels, const Frame& frame, const PixelGrid& grid, Taps taps,
              std::size_t lanes);

  void set_weights(std::span<const std::int8_t> q);
  std::size_t weight_bytes() const noexcept { return blocks_ * block_bytes_; }

  /// Memory of run().
  struct Room {
    const std::byte** rows;
    float** to;
    float* scales;
    std::int32_t* correction;
  };
  Room take(Scratch& scratch, std::size_t samples) const;

  /// @param frames       one for each sample
  /// @param excess       what the frame's values have beyond the real ones (offset + zero point)
  /// @param scales       of the samples
  /// @param lane_scales  (lanes, padded to 16)
  /// @param to           images (to_height, to_width, lanes), to_count values each
  void run(const std::byte* frames, std::size_t frame_bytes, int excess,
           std::span<const float> scales, const float* lane_scales, float* to, std::size_t to_count,
           const Room& room) const;

 private:
  void pack_block(std::size_t block, std::span<const std::int8_t> q);

  const TileKernels& kernels_;
  Frame frame_;
  PixelGrid grid_;
  Taps taps_;
  std::size_t lanes_, blocks_, steps_, block_bytes_;
  std::vector<std::ptrdiff_t> runs_;
  std::vector<std::size_t> from_;  // bytes in the frame, of each result pixel
  std::vector<std::size_t> to_;    // values in the result image
  LongArray<std::byte> panel_;
  std::vector<std::int32_t> column_sums_;  // (16 * blocks)
};

inline std::size_t blocks_of(std::size_t lanes) { return (lanes + kLanes - 1) / kLanes; }

}  // namespace eqt::int8
