// SPDX-License-Identifier: Apache-2.0
// Operands in the order in which the tiles read them, and the memory for them.

#pragma once

#include <cstddef>
#include <cstdint>

#include "int8/tiles.hpp"

namespace eqt::int8 {

/// Cuts the caller's memory into arrays; without memory it counts how much they need.
class Scratch {
 public:
  Scratch() = default;  // counts
  explicit Scratch(std::byte* memory) : memory_(memory) {}

  /// An array, aligned to 64 bytes, not initialized; null where it is only counted.
  template <typename T>
  T* take(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + at);
  }
  std::size_t used() const noexcept { return used_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t used_ = 0;
};

/// A block of 16 lanes out of pixels with consecutive lanes: each step gets, for each lane, the
/// values of the next pixels of a row, 4 of bytes or 2 of 16 bits. Reads 16 lanes of every pixel.
struct Packing {
  const std::byte* from;
  std::ptrdiff_t pixel_bytes, row_bytes;  // from a pixel, a row to the next
  std::size_t steps, rows;                // steps of a row; rows
  std::byte* to[4];                       // of 4 lanes each, steps of all rows one after the other
  std::size_t step_bytes;                 // from a step to the next

  /// Steps of 64 bytes, one after the other.
  void pack_to(std::byte* block) {
    for (std::size_t i = 0; i < 4; ++i) to[i] = block + 16 * i;
    step_bytes = 64;
  }
};
void pack_bytes(const Packing& packing);
void pack_words(const Packing& packing);
/// Signed bytes, written as 16 bits.
void pack_widened(const Packing& packing);

/// An image (in_height, in_width, channels) in a frame.
struct Frame {
  int in_height = 0, in_width = 0, channels = 0;
  int in_step = 1;        // 2: of every second pixel of every second row of the source
  int from_width = 0;     // of the source
  int top = 0, left = 0;  // rows and columns in front of the image
  int height = 0, width = 0;

  std::size_t pixel(int row, int column) const noexcept {  // its first value
    return static_cast<std::size_t>(row * width + column) * static_cast<std::size_t>(channels);
  }
  std::size_t count() const noexcept { return pixel(height, 0); }
};

/// Bytes q + offset, with zero_point + offset around them.
/// @param offset  0 or 128
void fill_frame(const Frame& frame, const std::int8_t* q, int zero_point, int offset,
                std::uint8_t* to);
/// Words q - zero_point, with 0 around them.
void fill_frame(const Frame& frame, const std::int8_t* q, int zero_point, std::int16_t* to);

inline std::size_t rounded_up(std::size_t count, std::size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Returns the distance of operands that are stored by rows of `bytes`: an odd number of cache
/// lines, so that 16 neighbouring rows are in 16 sets of the cache.
inline std::size_t row_pitch(std::size_t bytes) { return rounded_up(bytes, 64) | 64; }

inline std::size_t blocks_of(std::size_t lanes) { return (lanes + kLanes - 1) / kLanes; }

}  // namespace eqt::int8
