// SPDX-License-Identifier: Apache-2.0
// Weight gradients: sums over pixels of errors times inputs. A step takes neighbouring pixels of a
// row, so both operands are packed by pixels first: errors once, inputs once for each column of the
// kernel, whose rows are then distances. Where inputs have fewer than 16 channels, all taps of a
// pixel are lanes instead.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "int8/convolution.hpp"
#include "int8/packing.hpp"
#include "int8/tiles.hpp"

namespace eqt::int8 {

/// The input with the zeros around it. Under a kernel of 1 it holds only the pixels that count.
Frame frame_of_input(const ConvolutionShape& shape);

class Gradient {
 public:
  Gradient(const TileKernels& kernels, const ConvolutionShape& shape);

  std::size_t scratch_bytes(std::size_t samples) const;
  void add(std::span<const std::int8_t> x, int zero_point, std::span<const float> scales,
           std::span<const std::int8_t> error, std::span<const float> error_scales,
           std::span<float> dw, std::span<std::byte> scratch, OutputPart part) const;

 private:
  /// A TileRange has the tiles of output channels in [begin, end).
  struct TileRange {
    std::size_t begin, end;
    bool has(std::size_t tile) const noexcept { return tile >= begin && tile < end; }
  };
  struct Room {
    std::byte* frame;          // of one sample's input
    std::byte* taps;           // of a row of outputs: all taps of each pixel, if they are lanes
    std::byte* lanes;          // [block of 16][sample][row][step][16][4 bytes]
    std::byte* padded_error;   // of one sample: whole steps, whole blocks of 16
    std::byte* block;          // of one sample's errors, if tiles do not divide it or are turned;
                               // joined: of all samples, [block of 16][step][16][4 bytes]
    std::byte* rows;           // [tile][sample][row][step][rows of a tile][4 bytes], or turned:
                               // [tile][product][rows of a tile][step of a product][4 bytes]
    std::int32_t* correction;  // [tile][group][rows of a tile]
    std::int64_t* sums;        // of errors, [output channel]
    std::ptrdiff_t* runs;      // [run]
    std::size_t* firsts;       // [run]: its first sample
    std::size_t* places;       // [sample]: its first step in turned rows
    GradientGroup* groups;     // [group]
  };
  Room take(Scratch& scratch, std::size_t samples) const;

  void lay_out(std::size_t samples, std::size_t groups, const Room& room) const;
  void pack_error(const std::int8_t* error, std::size_t n, std::size_t samples, TileRange tiles,
                  const Room& room) const;
  void turn_block(std::size_t block, const std::byte* packed, std::size_t n, std::size_t steps,
                  std::size_t samples, const Room& room) const;
  void turn_joined(std::size_t samples, TileRange tiles, const Room& room) const;
  void cut_block(std::size_t block, std::size_t n, std::size_t samples, TileRange tiles,
                 const Room& room) const;
  std::size_t make_groups(std::span<const std::int8_t> error, std::span<const float> scales,
                          std::span<const float> error_scales, int excess, const Room& room) const;
  void fill(const std::int8_t* x, int zero_point, const Room& room) const;
  void pack_columns(int kernel_column, std::size_t n, std::size_t samples, const Room& room) const;
  void pack_taps(std::size_t n, std::size_t samples, const Room& room) const;
  void add_tap(int kernel_row, std::size_t tap, std::size_t samples, std::size_t groups,
               TileRange tiles, float* dw, const Room& room) const;
  int place_of(int frame_row) const noexcept;
  bool turns() const noexcept { return kernels_.turn != nullptr; }
  std::size_t tile_bytes(std::size_t samples) const noexcept;  // of errors

  const TileKernels& kernels_;
  ConvolutionShape shape_;
  bool all_taps_;  // are lanes
  int stride_;     // in the frame
  Frame frame_;
  std::size_t per_step_;      // pixels
  std::size_t row_steps_;     // steps of a row of outputs
  std::size_t steps_;         // of a sample
  std::size_t whole_steps_;   // of a sample: whole products
  bool joins_;                // samples of a group are one run, with zeros between them
  std::size_t sample_steps_;  // that inputs are packed into
  std::size_t lanes_, blocks_;
  std::size_t output_blocks_;  // of 16
  std::size_t tiles_;          // of output channels
};

}  // namespace eqt::int8
