// SPDX-License-Identifier: Apache-2.0
#include "int8/gradient.hpp"

#include <algorithm>
#include <cstring>

#include "int8/correlation.hpp"

namespace eqt::int8 {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

std::size_t rounded_up(std::size_t count, std::size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

}  // namespace

Gradient::Gradient(const TileKernels& kernels, const ConvolutionShape& shape)
    : kernels_(kernels), shape_(shape), all_taps_(at(shape.in_channels) < kLanes) {
  const int pad = shape.kernel / 2;
  frame_ = {.in_height = shape.height,
            .in_width = shape.width,
            .in_channels = shape.in_channels,
            .top = pad,
            .left = pad,
            .height = shape.height + 2 * pad,
            .width = shape.width + 2 * pad,
            .channels = shape.in_channels};
  per_step_ = kStepBytes / kernels.element_bytes;
  row_steps_ = rounded_up(at(shape.out_width()), per_step_) / per_step_;
  steps_ = at(shape.out_height()) * row_steps_;
  const int places = (frame_.height + shape.stride - 1) / shape.stride * shape.stride;
  sample_steps_ = all_taps_ ? steps_ : at(places) * row_steps_;
  lanes_ = at(all_taps_ ? shape.kernel * shape.kernel * shape.in_channels : shape.in_channels);
  blocks_ = blocks_of(lanes_);
  output_blocks_ = blocks_of(at(shape.out_channels));
  tiles_ = rounded_up(at(shape.out_channels), kernels.rows) / kernels.rows;
}

Gradient::Room Gradient::take(Scratch& scratch, std::size_t samples) const {
  const std::size_t element = kernels_.element_bytes;
  // A row's last step may begin pixels behind the frame, and its last block lanes.
  const std::size_t behind = (per_step_ * 2 + 7) * at(frame_.channels) + kLanes;
  Room room;
  room.frame = scratch.take<std::byte>((frame_.count() + behind) * element);
  room.taps =
      scratch.take<std::byte>(all_taps_ ? row_steps_ * per_step_ * blocks_ * kLanes * element : 0);
  room.lanes = scratch.take<std::byte>(blocks_ * samples * sample_steps_ * kPanelStep);
  room.padded_error = scratch.take<std::byte>(steps_ * per_step_ * output_blocks_ * kLanes);
  room.block = scratch.take<std::byte>(steps_ * kPanelStep);
  room.rows = scratch.take<std::byte>(tiles_ * samples * steps_ * kernels_.rows * kStepBytes);
  room.correction = scratch.take<std::int32_t>(samples * tiles_ * kernels_.rows);
  room.runs = scratch.take<std::ptrdiff_t>(samples);
  return room;
}

std::size_t Gradient::scratch_bytes(std::size_t samples) const {
  Scratch scratch;
  take(scratch, samples);
  return scratch.used();
}

Gradient::Group Gradient::group_at(std::size_t first, std::span<const float> scales,
                                   std::span<const float> error_scales) {
  std::size_t end = first + 1;
  while (end < scales.size() && scales[end] == scales[first] &&
         error_scales[end] == error_scales[first])
    ++end;
  return {first, end - first, scales[first] * error_scales[first]};
}

void Gradient::add(std::span<const std::int8_t> x, int zero_point, std::span<const float> scales,
                   std::span<const std::int8_t> error, std::span<const float> error_scales,
                   std::span<float> dw, std::span<std::byte> scratch) const {
  const std::size_t samples = scales.size();
  Scratch memory(scratch.data());
  const Room room = take(memory, samples);
  const int excess = kernels_.element_bytes == 1 ? zero_point + kernels_.offset : 0;
  for (std::size_t n = 0; n < samples; ++n)
    pack_error(error.data() + n * shape_.out_count(), n, samples, room);
  for (std::size_t n = 0; n < samples;) {
    const Group group = group_at(n, scales, error_scales);
    sum_errors(error.data() + n * shape_.out_count(), group, excess, room);
    n += group.count;
  }
  const int columns = all_taps_ ? 1 : shape_.kernel;
  for (int column = 0; column < columns; ++column) {
    for (std::size_t n = 0; n < samples; ++n) {
      if (column == 0 || samples > 1) fill(x.data() + n * shape_.in_count(), zero_point, room);
      if (all_taps_)
        pack_taps(n, samples, room);
      else
        pack_columns(column, n, samples, room);
    }
    for (int row = 0; row < columns; ++row)
      add_tap(row, at(row * columns + column), scales, error_scales, dw.data(), room);
  }
}

void Gradient::pack_error(const std::int8_t* error, std::size_t n, std::size_t samples,
                          const Room& room) const {
  const std::size_t outputs = at(shape_.out_channels), width = at(shape_.out_width());
  const std::size_t tile_rows = kernels_.rows, step_bytes = tile_rows * kStepBytes;
  const std::byte* from = reinterpret_cast<const std::byte*>(error);
  std::size_t pixel_bytes = outputs;
  if (outputs % kLanes != 0 || width % per_step_ != 0) {
    pixel_bytes = output_blocks_ * kLanes;
    std::memset(room.padded_error, 0, steps_ * per_step_ * pixel_bytes);
    for (std::size_t row = 0; row < at(shape_.out_height()); ++row) {
      for (std::size_t column = 0; column < width; ++column) {
        std::memcpy(room.padded_error + (row * row_steps_ * per_step_ + column) * pixel_bytes,
                    from + (row * width + column) * outputs, outputs);
      }
    }
    from = room.padded_error;
  }
  const auto pack = kernels_.element_bytes == 1 ? pack_bytes : pack_widened;
  const auto tile_at = [&](std::size_t tile) {
    return room.rows + (tile * samples + n) * steps_ * step_bytes;
  };
  // Channels of a block that stay together in a tile.
  const std::size_t together = kLanes % tile_rows == 0 ? tile_rows : 1;
  for (std::size_t block = 0; block < output_blocks_; ++block) {
    pack(from + block * kLanes, static_cast<std::ptrdiff_t>(pixel_bytes), steps_, room.block);
    for (std::size_t lane = 0; lane < kLanes; lane += together) {
      const std::size_t channel = block * kLanes + lane, tile = channel / tile_rows;
      if (tile >= tiles_) break;
      std::byte* to = tile_at(tile) + channel % tile_rows * kStepBytes;
      const std::byte* packed = room.block + lane * kStepBytes;
      for (std::size_t step = 0; step < steps_; ++step)
        std::memcpy(to + step * step_bytes, packed + step * kPanelStep, together * kStepBytes);
    }
  }
}

void Gradient::sum_errors(const std::int8_t* error, const Group& group, int excess,
                          const Room& room) const {
  const std::size_t outputs = at(shape_.out_channels), padded = tiles_ * kernels_.rows;
  std::int32_t* const sums = room.correction + group.first * padded;
  std::fill_n(sums, padded, 0);
  if (excess == 0) return;
  const std::int8_t* const end = error + group.count * shape_.out_count();
  for (; error < end; error += outputs)
    for (std::size_t o = 0; o < outputs; ++o) sums[o] += error[o];
  for (std::size_t o = 0; o < outputs; ++o) sums[o] *= excess;
}

void Gradient::fill(const std::int8_t* x, int zero_point, const Room& room) const {
  if (kernels_.element_bytes == 1)
    fill_frame(frame_, x, zero_point, kernels_.offset, reinterpret_cast<std::uint8_t*>(room.frame));
  else
    fill_frame(frame_, x, zero_point, reinterpret_cast<std::int16_t*>(room.frame));
}

/// Rows of the frame are sorted so that those under one row of the kernel are neighbours.
int Gradient::place_of(int frame_row) const noexcept {
  const int rows = (frame_.height + shape_.stride - 1) / shape_.stride;
  return frame_row % shape_.stride * rows + frame_row / shape_.stride;
}

void Gradient::pack_columns(int kernel_column, std::size_t n, std::size_t samples,
                            const Room& room) const {
  const std::size_t element = kernels_.element_bytes;
  const auto pixel_bytes =
      static_cast<std::ptrdiff_t>(at(shape_.stride * frame_.channels) * element);
  const auto pack = element == 1 ? pack_bytes : pack_words;
  for (std::size_t block = 0; block < blocks_; ++block) {
    std::byte* const to = room.lanes + (block * samples + n) * sample_steps_ * kPanelStep;
    for (int row = 0; row < frame_.height; ++row) {
      const std::byte* from =
          room.frame + (frame_.pixel(row, kernel_column) + block * kLanes) * element;
      pack(from, pixel_bytes, row_steps_, to + at(place_of(row)) * row_steps_ * kPanelStep);
    }
  }
}

void Gradient::pack_taps(std::size_t n, std::size_t samples, const Room& room) const {
  const std::size_t element = kernels_.element_bytes;
  const std::size_t row_bytes = at(shape_.kernel * frame_.channels) * element;
  const std::size_t pixel_bytes = blocks_ * kLanes * element;
  const auto pack = element == 1 ? pack_bytes : pack_words;
  for (int row = 0; row < shape_.out_height(); ++row) {
    for (int column = 0; column < shape_.out_width(); ++column) {
      std::byte* const taps = room.taps + at(column) * pixel_bytes;
      for (int i = 0; i < shape_.kernel; ++i) {
        const std::size_t from = frame_.pixel(row * shape_.stride + i, column * shape_.stride);
        std::memcpy(taps + at(i) * row_bytes, room.frame + from * element, row_bytes);
      }
    }
    for (std::size_t block = 0; block < blocks_; ++block) {
      pack(room.taps + block * kLanes * element, static_cast<std::ptrdiff_t>(pixel_bytes),
           row_steps_,
           room.lanes + ((block * samples + n) * steps_ + at(row) * row_steps_) * kPanelStep);
    }
  }
}

void Gradient::add_tap(int kernel_row, std::size_t tap, std::span<const float> scales,
                       std::span<const float> error_scales, float* dw, const Room& room) const {
  const std::size_t samples = scales.size(), outputs = at(shape_.out_channels);
  const std::size_t tile_rows = kernels_.rows;
  const std::size_t row_values = shape_.weight_count() / outputs;
  const std::size_t first_step = all_taps_ ? 0 : at(place_of(kernel_row)) * row_steps_;
  for (std::size_t n = 0; n < samples; ++n)
    room.runs[n] = static_cast<std::ptrdiff_t>((n * sample_steps_ + first_step) * kPanelStep);
  float unused[2 * kLanes] = {};  // where rows that do not exist are added
  float* to[kMostRows];
  GradientTile part{.rows = nullptr,
                    .panel = nullptr,
                    .runs = nullptr,
                    .run_count = 0,
                    .steps = steps_,
                    .block_bytes = samples * sample_steps_ * kPanelStep,
                    .to = to,
                    .correction = nullptr,
                    .scale = 0,
                    .lanes = 0};
  for (std::size_t block = 0; block < blocks_;) {
    const std::size_t count = std::min(kernels_.blocks, blocks_ - block);
    const std::size_t first_lane = block * kLanes;
    part.lanes = std::min(count * kLanes, lanes_ - first_lane);
    part.panel = room.lanes + block * part.block_bytes;
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      for (std::size_t i = 0; i < tile_rows; ++i) {
        const std::size_t o = tile * tile_rows + i;
        to[i] =
            o < outputs ? dw + o * row_values + tap * at(shape_.in_channels) + first_lane : unused;
      }
      for (std::size_t n = 0; n < samples;) {
        const Group group = group_at(n, scales, error_scales);
        part.rows = room.rows + (tile * samples + n) * steps_ * tile_rows * kStepBytes;
        part.runs = room.runs + n;
        part.run_count = group.count;
        part.correction = room.correction + (n * tiles_ + tile) * tile_rows;
        part.scale = group.scale;
        kernels_.accumulate[count - 1](part);
        n += group.count;
      }
    }
    block += count;
  }
}

}  // namespace eqt::int8
