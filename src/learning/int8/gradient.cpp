// SPDX-License-Identifier: Apache-2.0
#include "int8/gradient.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "int8/kernels.hpp"
#include "int8/quantize.hpp"

namespace eqt::int8 {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// Copies a row of a kernel's taps and up to 15 bytes more: copies of known sizes are fast.
void copy_row(const std::byte* from, std::size_t bytes, std::byte* to) {
  for (std::size_t i = 0; i < bytes; i += 16) std::memcpy(to + i, from + i, 16);
}

}  // namespace

Frame frame_of_input(const ConvolutionShape& shape) {
  const int pad = shape.kernel / 2, step = shape.kernel == 1 ? shape.stride : 1;
  const int height = step == 1 ? shape.height : shape.out_height();
  const int width = step == 1 ? shape.width : shape.out_width();
  return {.in_height = height,
          .in_width = width,
          .channels = shape.in_channels,
          .in_step = step,
          .from_width = shape.width,
          .top = pad,
          .left = pad,
          .height = height + 2 * pad,
          .width = width + 2 * pad};
}

Gradient::Gradient(const TileKernels& kernels, const ConvolutionShape& shape)
    : kernels_(kernels), shape_(shape), all_taps_(at(shape.in_channels) < kLanes) {
  frame_ = frame_of_input(shape);
  stride_ = shape.stride / frame_.in_step;
  per_step_ = kStepBytes / kernels.element_bytes;
  row_steps_ = rounded_up(at(shape.out_width()), per_step_) / per_step_;
  steps_ = at(shape.out_height()) * row_steps_;
  whole_steps_ = rounded_up(steps_, kernels.product_steps);
  sample_steps_ = all_taps_ ? steps_ : rounded_up(at(frame_.height), at(stride_)) * row_steps_;
  joins_ = turns() && sample_steps_ < whole_steps_;
  lanes_ = at(all_taps_ ? shape.kernel * shape.kernel * shape.in_channels : shape.in_channels);
  blocks_ = blocks_of(lanes_);
  output_blocks_ = blocks_of(at(shape.out_channels));
  tiles_ = rounded_up(at(shape.out_channels), kernels.rows) / kernels.rows;
}

Gradient::Room Gradient::take(Scratch& scratch, std::size_t samples) const {
  const std::size_t element = kernels_.element_bytes;
  // A row's last step may begin pixels behind the frame, and its last block lanes.
  const std::size_t behind = (per_step_ * 2 + 7) * at(frame_.channels) + 2 * kLanes;
  const std::size_t taps = all_taps_ ? row_steps_ * per_step_ * blocks_ * kLanes + 2 * kLanes : 0;
  Room room;
  room.frame = scratch.take<std::byte>((frame_.count() + behind) * element);
  room.taps = scratch.take<std::byte>(taps * element);
  // A whole product may end behind a sample's steps, where errors are 0.
  room.lanes = scratch.take<std::byte>(
      (blocks_ * samples * sample_steps_ + whole_steps_ - steps_ + kernels_.product_steps) *
      kPanelStep);
  room.padded_error = scratch.take<std::byte>(steps_ * per_step_ * output_blocks_ * kLanes);
  room.block =
      scratch.take<std::byte>((joins_ ? output_blocks_ * samples : 1) * whole_steps_ * kPanelStep);
  room.rows = scratch.take<std::byte>(tiles_ * tile_bytes(samples));
  room.correction = scratch.take<std::int32_t>(samples * tiles_ * kernels_.rows);
  room.sums = scratch.take<std::int64_t>(at(shape_.out_channels));
  room.runs = scratch.take<std::ptrdiff_t>(samples);
  room.firsts = scratch.take<std::size_t>(samples);
  room.places = scratch.take<std::size_t>(samples);
  room.groups = scratch.take<GradientGroup>(samples);
  return room;
}

std::size_t Gradient::tile_bytes(std::size_t samples) const noexcept {
  return samples * (turns() ? whole_steps_ : steps_) * kernels_.rows * kStepBytes;
}

std::size_t Gradient::scratch_bytes(std::size_t samples) const {
  Scratch scratch;
  take(scratch, samples);
  return scratch.used();
}

void Gradient::add(std::span<const std::int8_t> x, int zero_point, std::span<const float> scales,
                   std::span<const std::int8_t> error, std::span<const float> error_scales,
                   std::span<float> dw, std::span<std::byte> scratch, OutputPart part) const {
  const std::size_t samples = scales.size();
  const TileRange tiles{tiles_ * part.index / part.count, tiles_ * (part.index + 1) / part.count};
  if (tiles.begin == tiles.end) return;
  Scratch memory(scratch.data());
  const Room room = take(memory, samples);
  const int excess = kernels_.element_bytes == 1 ? zero_point + kernels_.offset : 0;
  const std::size_t groups = make_groups(error, scales, error_scales, excess, room);
  lay_out(samples, groups, room);
  if (joins_) std::memset(room.block, 0, output_blocks_ * samples * whole_steps_ * kPanelStep);
  for (std::size_t n = 0; n < samples; ++n)
    pack_error(error.data() + n * shape_.out_count(), n, samples, tiles, room);
  if (joins_) turn_joined(samples, tiles, room);
  const TileScope scope(kernels_);
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
      add_tap(row, at(row * columns + column), samples, groups, tiles, dw.data(), room);
  }
}

/// Makes runs of the groups' samples, and decides where samples begin in blocks to be turned.
void Gradient::lay_out(std::size_t samples, std::size_t groups, const Room& room) const {
  std::size_t place = 0, run = 0, n = 0;
  for (GradientGroup& group : std::span(room.groups, groups)) {
    const std::size_t count = group.runs;  // samples
    const std::size_t step = joins_ ? sample_steps_ : turns() ? whole_steps_ : steps_;
    for (std::size_t k = 0; k < count; ++k, ++n) {
      room.places[n] = place + k * step;
      if (k == 0 || !joins_) room.firsts[run++] = n;
    }
    group.steps = step;
    if (joins_) {
      group.runs = 1;
      group.steps = rounded_up((count - 1) * sample_steps_ + steps_, kernels_.product_steps);
    }
    place += group.runs * group.steps;
  }
  EQT_CHECK(n == samples, "groups of {} samples, expected {}", n, samples);
}

void Gradient::pack_error(const std::int8_t* error, std::size_t n, std::size_t samples,
                          TileRange tiles, const Room& room) const {
  const std::size_t outputs = at(shape_.out_channels), width = at(shape_.out_width());
  const std::size_t tile_rows = kernels_.rows, step_bytes = tile_rows * kStepBytes;
  const std::byte* from = reinterpret_cast<const std::byte*>(error);
  std::size_t pixel_bytes = outputs;
  const bool padded = outputs % kLanes != 0 || width % per_step_ != 0;
  if (padded) {
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
  const bool divides = !turns() && kLanes % tile_rows == 0;
  Packing packing{.from = from,
                  .pixel_bytes = static_cast<std::ptrdiff_t>(pixel_bytes),
                  .row_bytes = 0,
                  .steps = steps_,
                  .rows = 1,
                  .to = {},
                  .step_bytes = 0};
  const std::size_t first_block = tiles.begin * tile_rows / kLanes;
  const std::size_t end_block = std::min(output_blocks_, blocks_of(tiles.end * tile_rows));
  packing.from += first_block * kLanes;
  for (std::size_t block = first_block; block < end_block; ++block, packing.from += kLanes) {
    packing.pack_to(room.block);
    if (joins_)
      packing.pack_to(room.block + (block * samples * whole_steps_ + room.places[n]) * kPanelStep);
    for (std::size_t part = 0; divides && part < 4; ++part) {
      const std::size_t lane = block * kLanes + 4 * part, tile = lane / tile_rows;
      if (!tiles.has(tile)) continue;
      packing.to[part] =
          room.rows + (tile * samples + n) * steps_ * step_bytes + lane % tile_rows * kStepBytes;
      packing.step_bytes = step_bytes;
    }
    pack(packing);
    if (turns() && !joins_) {
      std::memset(room.block + steps_ * kPanelStep, 0, (whole_steps_ - steps_) * kPanelStep);
      turn_block(block, room.block, n, whole_steps_, samples, room);
    } else if (!turns() && !divides) {
      cut_block(block, n, samples, tiles, room);
    }
  }
}

/// Turns the errors of a block of channels from sample n on.
void Gradient::turn_block(std::size_t block, const std::byte* packed, std::size_t n,
                          std::size_t steps, std::size_t samples, const Room& room) const {
  const std::size_t tile = block * kLanes / kernels_.rows;
  kernels_.turn(
      packed, steps, block * kLanes % kernels_.rows,
      room.rows + tile * tile_bytes(samples) + room.places[n] * kernels_.rows * kStepBytes);
}

void Gradient::turn_joined(std::size_t samples, TileRange tiles, const Room& room) const {
  const std::size_t steps = samples * whole_steps_, blocks = kernels_.rows / kLanes;
  const std::size_t end = std::min(output_blocks_, tiles.end * blocks);
  for (std::size_t block = tiles.begin * blocks; block < end; ++block)
    turn_block(block, room.block + block * steps * kPanelStep, 0, steps, samples, room);
}

void Gradient::cut_block(std::size_t block, std::size_t n, std::size_t samples, TileRange tiles,
                         const Room& room) const {
  constexpr std::size_t kTogether = 2;  // all tiles have an even number of rows
  const std::size_t tile_rows = kernels_.rows, step_bytes = tile_rows * kStepBytes;
  for (std::size_t lane = 0; lane < kLanes; lane += kTogether) {
    const std::size_t channel = block * kLanes + lane, tile = channel / tile_rows;
    if (!tiles.has(tile)) continue;
    std::byte* const to =
        room.rows + (tile * samples + n) * steps_ * step_bytes + channel % tile_rows * kStepBytes;
    const std::byte* const from = room.block + lane * kStepBytes;
    for (std::size_t step = 0; step < steps_; ++step)
      std::memcpy(to + step * step_bytes, from + step * kPanelStep, kTogether * kStepBytes);
  }
}

/// Finds consecutive samples with the same scales, and what the excess of x adds to their sums.
/// @return number of groups
std::size_t Gradient::make_groups(std::span<const std::int8_t> error, std::span<const float> scales,
                                  std::span<const float> error_scales, int excess,
                                  const Room& room) const {
  std::size_t groups = 0;
  for (std::size_t n = 0; n < scales.size(); ++n) {
    const bool same = n > 0 && scales[n] == scales[n - 1] && error_scales[n] == error_scales[n - 1];
    if (!same)
      room.groups[groups++] = {.runs = 0, .steps = 0, .scale = scales[n] * error_scales[n]};
    ++room.groups[groups - 1].runs;
  }
  const std::size_t outputs = at(shape_.out_channels), tile_rows = kernels_.rows;
  std::fill_n(room.correction, groups * tiles_ * tile_rows, 0);
  if (excess == 0) return groups;
  const std::span<std::int64_t> sums(room.sums, outputs);
  for (std::size_t group = 0, first = 0; group < groups; ++group) {
    const std::size_t count = room.groups[group].runs * shape_.out_count();
    channel_sums(error.subspan(first, count), sums);
    first += count;
    for (std::size_t o = 0; o < outputs; ++o) {
      const std::size_t row = (o / tile_rows * groups + group) * tile_rows + o % tile_rows;
      room.correction[row] = static_cast<std::int32_t>(excess * sums[o]);
    }
  }
  return groups;
}

void Gradient::fill(const std::int8_t* x, int zero_point, const Room& room) const {
  if (kernels_.element_bytes == 1)
    fill_frame(frame_, x, zero_point, kernels_.offset, reinterpret_cast<std::uint8_t*>(room.frame));
  else
    fill_frame(frame_, x, zero_point, reinterpret_cast<std::int16_t*>(room.frame));
}

/// Rows of the frame are sorted so that those under one row of the kernel are neighbours.
int Gradient::place_of(int frame_row) const noexcept {
  const int rows = (frame_.height + stride_ - 1) / stride_;
  return frame_row % stride_ * rows + frame_row / stride_;
}

void Gradient::pack_columns(int kernel_column, std::size_t n, std::size_t samples,
                            const Room& room) const {
  const std::size_t element = kernels_.element_bytes;
  const auto pack = element == 1 ? pack_bytes : pack_words;
  for (int row = 0; row < stride_ && row < frame_.height; ++row) {
    Packing packing{
        .from = room.frame + frame_.pixel(row, kernel_column) * element,
        .pixel_bytes = static_cast<std::ptrdiff_t>(at(stride_ * frame_.channels) * element),
        .row_bytes = static_cast<std::ptrdiff_t>(frame_.pixel(stride_, 0) * element),
        .steps = row_steps_,
        .rows = at((frame_.height - row + stride_ - 1) / stride_),
        .to = {},
        .step_bytes = 0};
    for (std::size_t block = 0; block < blocks_; ++block, packing.from += kLanes * element) {
      packing.pack_to(room.lanes +
                      ((block * samples + n) * sample_steps_ + at(place_of(row)) * row_steps_) *
                          kPanelStep);
      pack(packing);
    }
  }
}

void Gradient::pack_taps(std::size_t n, std::size_t samples, const Room& room) const {
  const std::size_t element = kernels_.element_bytes;
  const std::size_t row_bytes = at(shape_.kernel * frame_.channels) * element;
  const std::size_t pixel_bytes = blocks_ * kLanes * element;
  const auto pack = element == 1 ? pack_bytes : pack_words;
  Packing packing{.from = room.taps,
                  .pixel_bytes = static_cast<std::ptrdiff_t>(pixel_bytes),
                  .row_bytes = 0,
                  .steps = row_steps_,
                  .rows = 1,
                  .to = {},
                  .step_bytes = 0};
  for (int row = 0; row < shape_.out_height(); ++row) {
    for (int column = 0; column < shape_.out_width(); ++column) {
      std::byte* const taps = room.taps + at(column) * pixel_bytes;
      for (int i = 0; i < shape_.kernel; ++i) {
        const std::size_t from = frame_.pixel(row * stride_ + i, column * stride_);
        copy_row(room.frame + from * element, row_bytes, taps + at(i) * row_bytes);
      }
    }
    for (std::size_t block = 0; block < blocks_; ++block) {
      packing.from = room.taps + block * kLanes * element;
      packing.pack_to(room.lanes +
                      ((block * samples + n) * steps_ + at(row) * row_steps_) * kPanelStep);
      pack(packing);
    }
  }
}

void Gradient::add_tap(int kernel_row, std::size_t tap, std::size_t samples, std::size_t groups,
                       TileRange tiles, float* dw, const Room& room) const {
  const std::size_t outputs = at(shape_.out_channels), tile_rows = kernels_.rows;
  const std::size_t row_values = shape_.weight_count() / outputs;
  const std::size_t first_step = all_taps_ ? 0 : at(place_of(kernel_row)) * row_steps_;
  std::size_t runs = 0;
  for (const GradientGroup& group : std::span(room.groups, groups)) runs += group.runs;
  for (std::size_t run = 0; run < runs; ++run)
    room.runs[run] =
        static_cast<std::ptrdiff_t>((room.firsts[run] * sample_steps_ + first_step) * kPanelStep);
  float unused[2 * kLanes] = {};  // where rows that do not exist are added
  float* to[kMostRows];
  GradientTile part{.rows = nullptr,
                    .row_count = 0,
                    .panel = nullptr,
                    .runs = room.runs,
                    .groups = room.groups,
                    .group_count = groups,
                    .block_bytes = samples * sample_steps_ * kPanelStep,
                    .to = to,
                    .correction = nullptr,
                    .lanes = 0};
  for (std::size_t tile = tiles.begin; tile < tiles.end; ++tile) {
    part.rows = room.rows + tile * tile_bytes(samples);
    part.row_count = std::min(tile_rows, outputs - tile * tile_rows);
    part.correction = room.correction + tile * groups * tile_rows;
    for (std::size_t block = 0; block < blocks_;) {
      const std::size_t count = std::min(kernels_.blocks, blocks_ - block);
      const std::size_t first_lane = block * kLanes;
      part.lanes = std::min(count * kLanes, lanes_ - first_lane);
      part.panel = room.lanes + block * part.block_bytes;
      for (std::size_t i = 0; i < tile_rows; ++i) {
        const std::size_t o = tile * tile_rows + i;
        to[i] =
            o < outputs ? dw + o * row_values + tap * at(shape_.in_channels) + first_lane : unused;
      }
      kernels_.accumulate[count - 1](part);
      block += count;
    }
  }
}

}  // namespace eqt::int8
