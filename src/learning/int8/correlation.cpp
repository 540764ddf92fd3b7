// SPDX-License-Identifier: Apache-2.0
#include "int8/correlation.hpp"

#include <algorithm>
#include <numeric>

namespace eqt::int8 {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// A TapBlock says where a tap's weights are: channel c of lane l is
/// from[c * channel_stride + l * lane_stride].
struct TapBlock {
  const std::int8_t* from;
  std::size_t channels, lanes, channel_stride, lane_stride;
};

void add_sums(const TapBlock& tap, std::int32_t* sums) {
  if (tap.channel_stride == 1) {
    for (std::size_t lane = 0; lane < tap.lanes; ++lane) {
      const std::int8_t* const row = tap.from + lane * tap.lane_stride;
      sums[lane] = std::accumulate(row, row + tap.channels, sums[lane]);
    }
    return;
  }
  for (std::size_t c = 0; c < tap.channels; ++c) {
    const std::int8_t* const row = tap.from + c * tap.channel_stride;
    for (std::size_t lane = 0; lane < tap.lanes; ++lane) sums[lane] += row[lane * tap.lane_stride];
  }
}

/// Channels become the values from `first` on of a run of steps; `to` is where the run begins.
template <typename T>
void pack_any(const TapBlock& tap, std::size_t first, std::byte* to) {
  constexpr std::size_t kPerStep = kStepBytes / sizeof(T);
  for (std::size_t lane = 0; lane < tap.lanes; ++lane) {
    const std::int8_t* const row = tap.from + lane * tap.lane_stride;
    T* const values = reinterpret_cast<T*>(to + lane * kStepBytes);
    std::size_t c = 0;
    if (first % kPerStep == 0) {  // whole steps
      T* at = values + first / kPerStep * (kPanelStep / sizeof(T));
      for (; c + kPerStep <= tap.channels; c += kPerStep, at += kPanelStep / sizeof(T))
        for (std::size_t i = 0; i < kPerStep; ++i) at[i] = row[(c + i) * tap.channel_stride];
    }
    for (; c < tap.channels; ++c) {
      const std::size_t k = first + c;
      values[k / kPerStep * (kPanelStep / sizeof(T)) + k % kPerStep] = row[c * tap.channel_stride];
    }
  }
}

}  // namespace

Correlation::Correlation(const TileKernels& kernels, const Frame& frame, const PixelGrid& grid,
                         Taps taps, std::size_t lanes)
    : kernels_(kernels), frame_(frame), grid_(grid), taps_(std::move(taps)), lanes_(lanes) {
  const std::size_t element = kernels.element_bytes;
  blocks_ = blocks_of(lanes);
  steps_ = (at(taps_.columns * frame.channels) * element + kStepBytes - 1) / kStepBytes;
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
  TapBlock tap{.from = nullptr,
               .channels = at(frame_.channels),
               .lanes = std::min(kLanes, lanes_ - block * kLanes),
               .channel_stride = taps_.channel_stride,
               .lane_stride = taps_.lane_stride};
  const bool in_rows = tap.lane_stride == 1 && tap.lanes == kLanes && tap.channels % per_step == 0;
  for (std::size_t t = 0; t < taps_.offsets.size(); ++t) {
    tap.from = q.data() + taps_.offsets[t] + block * kLanes * tap.lane_stride;
    add_sums(tap, column_sums_.data() + block * kLanes);
    std::byte* const run =
        panel_.get() + block * block_bytes_ + t / at(taps_.columns) * steps_ * kPanelStep;
    const std::size_t first = t % at(taps_.columns) * tap.channels;
    if (in_rows) {
      Packing packing{.from = reinterpret_cast<const std::byte*>(tap.from),
                      .pixel_bytes = static_cast<std::ptrdiff_t>(tap.channel_stride),
                      .row_bytes = 0,
                      .steps = tap.channels / per_step,
                      .rows = 1,
                      .to = {},
                      .step_bytes = 0};
      packing.pack_to(run + first / per_step * kPanelStep);
      (element == 1 ? pack_bytes : pack_widened)(packing);
    } else if (element == 1) {
      pack_any<std::int8_t>(tap, first, run);
    } else {
      pack_any<std::int16_t>(tap, first, run);
    }
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
