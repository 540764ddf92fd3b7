// SPDX-License-Identifier: Apache-2.0
// Operands in the order in which the tiles read them.

#pragma once

#include <cstddef>
#include <cstdint>

namespace eqt::int8 {

/// A block of 16 lanes out of rows of consecutive lanes. Step s of `to`, 64 bytes, gets for each
/// lane the values of the next rows: 4 rows of bytes, 2 of 16 bits. Reads 16 lanes of each row.
/// @param row_bytes  from a row to the next
void pack_bytes(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to);
void pack_words(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to);
/// Rows of signed bytes, written as 16 bits.
void pack_widened(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps,
                  std::byte* to);

/// An image (in_height, in_width, in_channels) in a frame, with channels padded.
struct Frame {
  int in_height = 0, in_width = 0, in_channels = 0;
  int top = 0, left = 0;  // rows and columns in front of the image
  int height = 0, width = 0, channels = 0;

  std::size_t pixel(int row, int column) const noexcept {  // its first value
    return static_cast<std::size_t>(row * width + column) * static_cast<std::size_t>(channels);
  }
  std::size_t count() const noexcept { return pixel(height, 0); }
};

/// Bytes q + offset, with zero_point + offset around them.
/// @param offset  0 or 128
void fill_frame(const Frame& frame, const std::int8_t* q, int zero_point, int offset,
                std::uint8_t* to);
/// q - zero_point, with 0 around them.
void fill_frame(const Frame& frame, const std::int8_t* q, int zero_point, std::int16_t* to);

}  // namespace eqt::int8
