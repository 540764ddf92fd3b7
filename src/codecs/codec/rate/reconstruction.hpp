// SPDX-License-Identifier: Apache-2.0
// Steps and centroids, the header of a block of a dead-zone quantizer, and the values of its
// indices. RateCodec and WholeBits have these blocks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/compressor.hpp"
#include "codec/rate/magnitude_histogram.hpp"

namespace eqt::codec {

/// Magnitudes of values that can be sent. Blocks of smaller ones count as zeros.
inline constexpr float kLargestMagnitude = 0x1p100f, kSmallestMagnitude = 0x1p-100f;

/// Index 0 is 0, index 1 is first / 64 steps, index j >= 2 is second / 64 + j - 2 steps.
struct Reconstruction {
  static constexpr std::size_t kStepBytes = 2, kBytes = 4;

  float step = 0;                  // D, whose lower 16 bits are 0; 0: all values are 0
  unsigned first = 0, second = 0;  // centroids c_1 and c_2 [1/64 steps]

  Reconstruction() = default;
  explicit Reconstruction(const DeadZone& zone);

  /// Writes kBytes, or kStepBytes if the step is 0.
  /// @return bytes written
  std::size_t write(std::byte* to) const;
  /// The inverse of write().
  /// @throws Error{wire} for a step that is not in [0, 2^101] and centroids that do not rise
  static Reconstruction read(std::span<const std::byte> from);

  std::size_t bytes() const { return step == 0 ? kStepBytes : kBytes; }

  /// Fills value[j] = scale * value of index j, for j up to last, and value[sign + j] = -value[j].
  void fill(float scale, std::uint32_t last, std::size_t sign, std::span<float> value) const;
};

/// Refuses values that are not finite or above kLargestMagnitude. @throws Error{diverged}
/// @param largest their largest magnitude
/// @param first_index of the first one in the slice
void require_magnitudes(CodecId id, float largest, std::span<const float> values,
                        std::uint64_t first_index);

/// Throw an Error{wire}: of a block that is cut, and of bytes after the last block.
[[noreturn]] void fail_truncated_block(std::size_t expected, std::size_t found);
[[noreturn]] void fail_rest(std::size_t bytes, std::size_t values);

}  // namespace eqt::codec
