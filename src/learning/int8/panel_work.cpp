// SPDX-License-Identifier: Apache-2.0
// The passes with tiles of vectors: forward is one correlation, dX one for each place that an input
// pixel can have under the stride.
#include <algorithm>

#include "int8/convolution_work.hpp"
#include "int8/correlation.hpp"
#include "int8/gradient.hpp"

namespace eqt::int8 {
namespace {

using Bytes = std::span<const std::int8_t>;

std::size_t at(int number) { return static_cast<std::size_t>(number); }

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
    // The first part has the most pixels.
    if (!parts.empty()) room.correlation = parts.front().take(scratch, samples);
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
