// SPDX-License-Identifier: Apache-2.0
// What a rank sends of its gradient under lazy aggregation: the difference from what the others
// know already, on a uniform grid or as float32.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/layout.hpp"

namespace eqt::sync {

/// The largest number of bits of a code.
inline constexpr unsigned kMostLazyBits = 16;

/// The grid of LAQ (Sun et al., NeurIPS 2019, arXiv:1909.07588, equation 5): 2^bits points from -R
/// to R, R being the largest magnitude of the difference. With 0 bits the difference is float32.
///
/// A frame of codec number 23 (codec/FORMAT.md). Its length says whether the rank has sent.
class LazyDifference {
 public:
  /// @param count values of the gradient
  /// @param bits  at most kMostLazyBits; 0 = float32
  LazyDifference(std::size_t count, unsigned bits);

  /// Returns the length of a frame with a difference [bytes].
  std::size_t frame_bytes() const noexcept;

  struct Squares {
    double sent = 0;   // |delta|^2
    double error = 0;  // |gradient - known - delta|^2; 0 for float32
    double exact = 0;  // |gradient - known|^2
  };
  /// Writes the frame of delta, which is gradient - known on the grid.
  /// @param frame (frame_bytes())
  /// @throws Error{diverged} if the difference has no float32
  Squares encode(std::span<const float> gradient, std::span<const double> known, StepId step,
                 std::span<std::byte> frame) const;

  /// Writes the frame of a rank that sends nothing. @return its bytes
  std::size_t encode_nothing(StepId step, std::span<std::byte> frame) const;

  /// values += delta, unless the frame says that its rank has sent nothing.
  /// @return whether it has sent
  /// @throws Error{wire} on any malformed frame
  bool decode_add(std::span<const std::byte> frame, StepId step, std::span<double> values) const;

 private:
  std::size_t payload_bytes() const noexcept;
  Squares encode_exact(std::span<const float> gradient, std::span<const double> known,
                       std::span<std::byte> payload) const;
  Squares encode_codes(std::span<const float> gradient, std::span<const double> known,
                       std::span<std::byte> payload) const;
  void add_exact(std::span<const std::byte> payload, std::span<double> values) const;
  void add_codes(std::span<const std::byte> payload, std::span<double> values) const;
  float point(double radius, std::uint32_t code) const noexcept;

  const std::size_t count_;
  const unsigned bits_;
  const std::uint32_t last_code_;  // 2^bits - 1
};

}  // namespace eqt::sync
