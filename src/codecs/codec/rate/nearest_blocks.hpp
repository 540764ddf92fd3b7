// SPDX-License-Identifier: Apache-2.0
// NearestBlocks: what codecs have in common that round to nearest with a dead zone and centroids,
// block by block: the loops over blocks, error feedback, and the header of a block. RateCodec and
// WholeBits say how many bits a block gets and how its indices are coded.

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

/// Throws an Error{wire} of a block that is cut.
[[noreturn]] void fail_truncated_block(std::size_t expected, std::size_t found);

class NearestBlocks : public Compressor {
 public:
  CodecId id() const noexcept final { return id_; }
  Properties properties() const noexcept final;
  std::size_t max_payload_bytes(std::size_t count) const final;
  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const final;
  std::size_t encode_with_feedback(std::span<const float> gradient, const EncodeContext& context,
                                   Workspace& workspace, std::span<float> residual,
                                   std::span<std::byte> payload) const final;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const final;

 protected:
  /// @param block values of a block, but of the last one
  NearestBlocks(CodecId id, std::size_t block) : id_(id), block_(block) {}

 private:
  virtual std::size_t max_block_bytes(std::size_t count) const = 0;
  /// Writes a block that is not sent as zeros.
  /// @param first_index of the block in its slice
  /// @param largest magnitude of the values, from kSmallestMagnitude to kLargestMagnitude
  /// @return bytes written
  virtual std::size_t encode_block(std::span<const float> values, std::uint64_t first_index,
                                   float largest, Workspace& workspace,
                                   std::span<std::byte> to) const = 0;
  /// Subtracts from the values what encode_block() has just written of them, with the workspace as
  /// it left it.
  virtual void subtract_block(std::span<const std::byte> block, Workspace& workspace,
                              std::span<float> values) const = 0;
  /// Adds the values of the block at the front. @return its bytes. @throws Error{wire}
  virtual std::size_t decode_block(std::span<const std::byte> from, float scale,
                                   Workspace& workspace, std::span<float> sum) const = 0;

  /// Writes a block of any values.
  std::size_t write_any(std::span<const float> values, std::uint64_t first_index, float largest,
                        Workspace& workspace, std::span<std::byte> to) const;

  CodecId id_;
  std::size_t block_;
};

}  // namespace eqt::codec
