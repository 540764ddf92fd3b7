// SPDX-License-Identifier: Apache-2.0
// The passes with tiles of vectors: forward is one correlation, dX one for each place that an input
// pixel can have under the stride.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/flat_buffer.hpp"
#include "int8/convolution_work.hpp"
#include "int8/gradient.hpp"
#include "int8/packing.hpp"
#include "int8/tiles.hpp"

namespace eqt::int8 {
namespace {

using Bytes = std::span<const std::int8_t>;

std::size_t at(int number) { return static_cast<std::size_t>(number); }

// Products of a framed image with taps of weights: a forward pass, or the part of dX for input
// pixels that see the same taps. No copies of the image are made for the taps: a tap is a distance
// in the frame.

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
    std::byte* copies;  // copies_bytes(); take() leaves them out
  };
  Room take(Scratch& scratch, std::size_t samples) const;
  /// The end of a run may be copied with bytes behind it.
  std::size_t copies_bytes() const noexcept {
    return kernels_.copied_rows * copy_bytes() + kPanelStep;
  }

  /// @param frames       one for each sample
  /// @param excess       what the frame's values have beyond the real ones (offset + zero point)
  /// @param scales       of the samples
  /// @param lane_scales  (lanes, padded to 16)
  /// @param to           images (to_height, to_width, lanes), to_count values each
  void run(const std::byte* frames, std::size_t frame_bytes, int excess,
           std::span<const float> scales, const float* lane_scales, float* to, std::size_t to_count,
           const Room& room) const;

 private:
  std::size_t copy_bytes() const noexcept { return row_pitch(block_bytes_ / kLanes); }
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

Correlation::Correlation(const TileKernels& kernels, const Frame& frame, const PixelGrid& grid,
                         Taps taps, std::size_t lanes)
    : kernels_(kernels), frame_(frame), grid_(grid), taps_(std::move(taps)), lanes_(lanes) {
  const std::size_t element = kernels.element_bytes;
  blocks_ = blocks_of(lanes);
  steps_ = (at(taps_.columns * frame.channels) * element + kStepBytes - 1) / kStepBytes;
  block_bytes_ = rounded_up(at(taps_.rows) * steps_, kernels.product_steps) * kPanelStep;
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
  const std::size_t rows = rounded_up(samples * from_.size(), tile);
  Room room;
  room.rows = scratch.take<const std::byte*>(rows);
  room.to = scratch.take<float*>(rows);
  room.scales = scratch.take<float>(rows);
  room.correction = scratch.take<std::int32_t>(column_sums_.size());
  room.copies = nullptr;
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
  const TileScope scope(kernels_);
  kernels_.store({.tiles = rows / kernels_.rows,
                  .rows = room.rows,
                  .to = room.to,
                  .scales = room.scales,
                  .runs = runs_.data(),
                  .run_count = runs_.size(),
                  .steps = steps_,
                  .panel = panel_.get(),
                  .block_bytes = block_bytes_,
                  .correction = room.correction,
                  .lane_scales = lane_scales,
                  .lanes = lanes_,
                  .copies = room.copies,
                  .copy_bytes = copy_bytes()});
}

/// Along one axis, for input pixels first, first + stride, ...: the taps that lead from an error to
/// them, as (kernel index, distance of the error's pixel), by distance.
struct AxisTaps {
  std::vector<int> kernel;
  int first_distance = 0;
  int pixels = 0;
};

AxisTaps taps_to(int first, int size, const ConvolutionShape& shape) {
  AxisTaps taps;
  taps.pixels = first < size ? (size - 1 - first) / shape.stride + 1 : 0;
  const int reach = first + shape.kernel / 2;
  for (int k = shape.kernel - 1; k >= 0; --k) {
    if ((reach - k) % shape.stride != 0) continue;
    if (taps.kernel.empty()) taps.first_distance = (reach - k) / shape.stride;
    taps.kernel.push_back(k);
  }
  return taps;
}

/// Pixels of a frame in front of and behind `size` ones, so that all taps lie in it.
struct Margin {
  int front = 0, behind = 0;
  void cover(const AxisTaps& taps, int size) {
    if (taps.kernel.empty() || taps.pixels == 0) return;
    const int last = taps.pixels - 1 + taps.first_distance + static_cast<int>(taps.kernel.size());
    front = std::max(front, -taps.first_distance);
    behind = std::max(behind, last - size);
  }
};

class PanelWork final : public ConvolutionWork {
 public:
  PanelWork(const ConvolutionShape& shape, const TileKernels& kernels)
      : kernels_(kernels), shape_(shape), forward_(make_forward()), gradient_(kernels, shape) {
    make_backward();
    ones_.assign(blocks_of(at(shape.in_channels)) * kLanes, 1.0f);
  }

  void set_weights(Bytes q) override {
    forward_.set_weights(q);
    for (Correlation& part : backward_) part.set_weights(q);
  }

  std::size_t weight_bytes() const noexcept override {
    std::size_t bytes = forward_.weight_bytes();
    for (const Correlation& part : backward_) bytes += part.weight_bytes();
    return bytes;
  }

  std::size_t scratch_bytes(int samples) const override {
    Scratch forward, backward;
    take(forward, x_frame_, at(samples), {&forward_, 1}, at(shape_.out_channels));
    take(backward, error_frame_, at(samples), backward_, 0);
    return std::max({forward.used(), backward.used(), gradient_.scratch_bytes(at(samples))});
  }

  void forward(Bytes x, int zero_point, std::span<const float> scales,
               std::span<const float> weight_scales, std::span<float> out,
               std::span<std::byte> scratch) const override {
    Scratch memory(scratch.data());
    const Room room = take(memory, x_frame_, scales.size(), {&forward_, 1}, weight_scales.size());
    fill(x_frame_, x, zero_point, scales.size(), room.frames);
    std::ranges::copy(weight_scales, room.lane_scales);
    forward_.run(room.frames, frame_bytes(x_frame_), excess(zero_point), scales, room.lane_scales,
                 out.data(), shape_.out_count(), room.correlation);
  }

  void backward_input(Bytes error, std::span<const float> scales, std::span<float> dx,
                      std::span<std::byte> scratch) const override {
    Scratch memory(scratch.data());
    const Room room = take(memory, error_frame_, scales.size(), backward_, 0);
    fill(error_frame_, error, 0, scales.size(), room.frames);
    if (backward_leaves_zeros_) std::ranges::fill(dx, 0.0f);
    for (const Correlation& part : backward_) {
      part.run(room.frames, frame_bytes(error_frame_), excess(0), scales, ones_.data(), dx.data(),
               shape_.in_count(), room.correlation);
    }
  }

  void add_weight_gradient(Bytes x, int zero_point, std::span<const float> scales, Bytes error,
                           std::span<const float> error_scales, std::span<float> dw,
                           std::span<std::byte> scratch, OutputPart part) const override {
    gradient_.add(x, zero_point, scales, error, error_scales, dw, scratch, part);
  }

 private:
  struct Room {
    std::byte* frames;
    float* lane_scales;
    Correlation::Room correlation;  // enough for the largest
  };

  Room take(Scratch& scratch, const Frame& frame, std::size_t samples,
            std::span<const Correlation> parts, std::size_t lanes) const {
    Room room;
    room.frames = scratch.take<std::byte>(samples * frame_bytes(frame));
    room.lane_scales = scratch.take<float>(blocks_of(lanes) * kLanes);
    if (parts.empty()) return room;
    room.correlation = parts.front().take(scratch, samples);  // the first has the most pixels
    std::size_t copies = 0;                                   // and another the most taps
    for (const Correlation& part : parts) copies = std::max(copies, part.copies_bytes());
    room.correlation.copies = scratch.take<std::byte>(copies);
    return room;
  }

  std::size_t frame_bytes(const Frame& frame) const {
    return (frame.count() * kernels_.element_bytes + kStepBytes + 63) / 64 * 64;
  }

  int excess(int zero_point) const {
    return kernels_.element_bytes == 1 ? zero_point + kernels_.offset : 0;
  }

  void fill(const Frame& frame, Bytes q, int zero_point, std::size_t samples,
            std::byte* frames) const {
    const std::size_t count = q.size() / samples;
    for (std::size_t n = 0; n < samples; ++n, frames += frame_bytes(frame)) {
      const std::int8_t* from = q.data() + n * count;
      if (kernels_.element_bytes == 1)
        fill_frame(frame, from, zero_point, kernels_.offset,
                   reinterpret_cast<std::uint8_t*>(frames));
      else
        fill_frame(frame, from, zero_point, reinterpret_cast<std::int16_t*>(frames));
    }
  }

  Correlation make_forward() {
    x_frame_ = frame_of_input(shape_);
    PixelGrid grid{.rows = shape_.out_height(),
                   .columns = shape_.out_width(),
                   .step = shape_.stride / x_frame_.in_step,
                   .to_width = shape_.out_width()};
    Taps taps{.rows = shape_.kernel,
              .columns = shape_.kernel,
              .offsets = {},
              .channel_stride = 1,
              .lane_stride = tap_count() * at(shape_.in_channels)};
    for (std::size_t tap = 0; tap < tap_count(); ++tap)
      taps.offsets.push_back(tap * at(shape_.in_channels));
    return {kernels_, x_frame_, grid, std::move(taps), at(shape_.out_channels)};
  }

  void make_backward() {
    std::vector<AxisTaps> vertical, horizontal;
    Margin rows, columns;
    for (int first = 0; first < shape_.stride; ++first) {
      vertical.push_back(taps_to(first, shape_.height, shape_));
      horizontal.push_back(taps_to(first, shape_.width, shape_));
      rows.cover(vertical.back(), shape_.out_height());
      columns.cover(horizontal.back(), shape_.out_width());
    }
    error_frame_ = {.in_height = shape_.out_height(),
                    .in_width = shape_.out_width(),
                    .channels = shape_.out_channels,
                    .from_width = shape_.out_width(),
                    .top = rows.front,
                    .left = columns.front,
                    .height = shape_.out_height() + rows.front + rows.behind,
                    .width = shape_.out_width() + columns.front + columns.behind};
    for (int i = 0; i < shape_.stride; ++i)
      for (int j = 0; j < shape_.stride; ++j)
        add_backward(i, j, vertical[at(i)], horizontal[at(j)]);
  }

  /// dX of the pixels (row, column) + stride (i, j).
  void add_backward(int row, int column, const AxisTaps& vertical, const AxisTaps& horizontal) {
    if (vertical.pixels == 0 || horizontal.pixels == 0) return;
    if (vertical.kernel.empty() || horizontal.kernel.empty()) {
      backward_leaves_zeros_ = true;
      return;
    }
    PixelGrid grid{.rows = vertical.pixels,
                   .columns = horizontal.pixels,
                   .row = error_frame_.top + vertical.first_distance,
                   .column = error_frame_.left + horizontal.first_distance,
                   .step = 1,
                   .to_row = row,
                   .to_column = column,
                   .to_step = shape_.stride,
                   .to_width = shape_.width};
    const std::size_t inputs = at(shape_.in_channels);
    Taps taps{.rows = static_cast<int>(vertical.kernel.size()),
              .columns = static_cast<int>(horizontal.kernel.size()),
              .offsets = {},
              .channel_stride = tap_count() * inputs,
              .lane_stride = 1};
    for (const int i : vertical.kernel)
      for (const int j : horizontal.kernel)
        taps.offsets.push_back(at(i * shape_.kernel + j) * inputs);
    backward_.emplace_back(kernels_, error_frame_, grid, std::move(taps), inputs);
  }

  std::size_t tap_count() const { return at(shape_.kernel * shape_.kernel); }

  const TileKernels& kernels_;
  ConvolutionShape shape_;
  Frame x_frame_, error_frame_;
  Correlation forward_;
  std::vector<Correlation> backward_;
  bool backward_leaves_zeros_ = false;
  std::vector<float> ones_;
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<ConvolutionWork> make_panel_work(const ConvolutionShape& shape,
                                                 const TileKernels& kernels) {
  return std::make_unique<PanelWork>(shape, kernels);
}

}  // namespace eqt::int8
