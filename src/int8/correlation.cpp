// SPDX-License-Identifier: Apache-2.0
#include "int8/correlation.hpp"

#include <algorithm>
#include <cstring>

namespace eqt::int8 {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// `count` values of 8 bits, widened if the family's operands are.
void copy_values(const std::int8_t* from, std::size_t stride, std::size_t count,
                 std::size_t element_bytes, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int16_t value = from[i * stride];
    std::memcpy(to + i * element_bytes, &value, element_bytes);  // little-endian, as all targets
  }
}

}  // namespace

Correlation::Correlation(const TileKernels& kernels, const Frame& frame, const PixelGrid& grid,
                         Taps taps, std::size_t lanes)
    : kernels_(kernels), frame_(frame), grid_(grid), taps_(std::move(taps)), lanes_(lanes) {
  const std::size_t element = kernels.element_bytes;
  blocks_ = blocks_of(lanes);
  steps_ = at(taps_.columns * frame.channels) * element / kStepBytes;
  block_bytes_ = at(taps_.rows) * steps_ * kPanelStep;
  panel_ = make_long_array<std::byte>(blocks_ * block_bytes_);
  column_sums_.resize(blocks_ * kLanes);
  for (int row = 0; row < taps_.rows; ++row)
    runs_.push_back(static_cast<std::ptrdiff_t>(frame.pixel(row, 0) * element));
  for (int i = 0; i < grid.rows; ++i) {
    for (int j = 0; j < grid.columns; ++j) {
      from_.push_back(frame.pixel(grid.row + i * grid.step, grid.column + j * grid.step) * element);
      const int pixel =
          (grid.to_row + i * grid.to_step) * grid.to_width + grid.to_column + j * grid.to_step;
      to_.push_back(at(pixel) * lanes);
    }
  }
}

void Correlation::set_weights(std::span<const std::int8_t> q) {
  std::ranges::fill(column_sums_, 0);
  std::fill_n(panel_.get(), blocks_ * block_bytes_, std::byte{0});
  for (std::size_t block = 0; block < blocks_; ++block) pack_block(block, q);
}

void Correlation::pack_block(std::size_t block, std::span<const std::int8_t> q) {
  const std::size_t element = kernels_.element_bytes, per_step = kStepBytes / element;
  const std::size_t channels = at(frame_.in_channels);
  const std::size_t tap_steps = at(frame_.channels) / per_step;
  const std::size_t lanes = std::min(kLanes, lanes_ - block * kLanes);
  std::byte* to = panel_.get() + block * block_bytes_;
  for (const std::size_t offset : taps_.offsets) {
    const std::int8_t* from = q.data() + offset + block * kLanes * taps_.lane_stride;
    std::int32_t* sums = column_sums_.data() + block * kLanes;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      for (std::size_t c = 0; c < channels; ++c)
        sums[lane] += from[lane * taps_.lane_stride + c * taps_.channel_stride];
    const bool whole = lanes == kLanes && channels % per_step == 0;
    if (whole && taps_.lane_stride == 1) {
      const auto* rows = reinterpret_cast<const std::byte*>(from);
      const auto stride = static_cast<std::ptrdiff_t>(taps_.channel_stride);
      (element == 1 ? pack_bytes : pack_widened)(rows, stride, channels / per_step, to);
    } else {
      for (std::size_t c = 0; c < channels; c += per_step) {
        const std::size_t count = std::min(per_step, channels - c);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          copy_values(from + lane * taps_.lane_stride + c * taps_.channel_stride,
                      taps_.channel_stride, count, element,
                      to + c / per_step * kPanelStep + lane * kStepBytes);
        }
      }
    }
    to += tap_steps * kPanelStep;
  }
}

Correlation::Room Correlation::take(Scratch& scratch, std::size_t samples) const {
  const std::size_t tile = kernels_.rows;
  const std::size_t rows = (samples * from_.size() + tile - 1) / tile * tile;
  Room room;
  room.rows = scratch.take<const std::byte*>(rows);
  room.to = scratch.take<float*>(rows);
  room.scales = scratch.take<float>(rows);
  room.correction = scratch.take<std::int32_t>(column_sums_.size());
  return room;
}

void Correlation::run(const std::byte* frames, std::size_t frame_bytes, int excess,
                      std::span<const float> scales, const float* lane_scales, float* to,
                      std::size_t to_count, const Room& room) const {
  std::size_t rows = 0;
  for (std::size_t n = 0; n < scales.size(); ++n) {
    for (std::size_t pixel = 0; pixel < from_.size(); ++pixel, ++rows) {
      room.rows[rows] = frames + n * frame_bytes + from_[pixel];
      room.to[rows] = to + n * to_count + to_[pixel];
      room.scales[rows] = scales[n];
    }
  }
  for (; rows % kernels_.rows != 0; ++rows) {  // the last pixel again fills its tile
    room.rows[rows] = room.rows[rows - 1];
    room.to[rows] = room.to[rows - 1];
    room.scales[rows] = room.scales[rows - 1];
  }
  std::ranges::transform(column_sums_, room.correction,
                         [excess](std::int32_t sum) { return excess * sum; });
  StoreTiles tiles{.tiles = rows / kernels_.rows,
                   .rows = room.rows,
                   .to = room.to,
                   .scales = room.scales,
                   .runs = runs_.data(),
                   .run_count = runs_.size(),
                   .steps = steps_,
                   .panel = nullptr,
                   .block_bytes = block_bytes_,
                   .correction = nullptr,
                   .lane_scales = nullptr,
                   .first_lane = 0,
                   .lanes = 0};
  for (std::size_t block = 0; block < blocks_;) {
    const std::size_t count = std::min(kernels_.blocks, blocks_ - block);
    tiles.first_lane = block * kLanes;
    tiles.lanes = std::min(count * kLanes, lanes_ - tiles.first_lane);
    tiles.panel = panel_.get() + block * block_bytes_;
    tiles.correction = room.correction + tiles.first_lane;
    tiles.lane_scales = lane_scales + tiles.first_lane;
    kernels_.store[count - 1](tiles);
    block += count;
  }
}

}  // namespace eqt::int8
