// SPDX-License-Identifier: Apache-2.0
// IntegerCodec: a compressor's quantisation relative to scales that all ranks share, so that codes
// can be added as integers and only the sum is decoded.
//
// Source   scaler sharing: W. Wen et al. (TernGrad), NeurIPS 2017, section 3.2; sums in the code
//          domain: A. Sapio et al. (SwitchML), NSDI 2021; K. Mishchenko et al. (IntSGD), ICLR 2022
// Symbols  v_m one bucket of rank m, S its shared scale, s the largest code, n ranks
// Method   S = max over ranks of own_scale(v_m); q_m in -s ... s with E[step(S) q_m] = v_m (int8:
//          nearest); mean = (step(S) / n) sum q_m
// Error    as the codec's own with S in place of the bucket's norm; it grows with the ratio of S to
//          the rank's own scale. Each value is quantised once.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "codec/compressor.hpp"

namespace eqt::codec {

/// The values that a whole bucket shares on one rank.
struct SharedBucket {
  float own = 0;                   // own_scale() of the bucket
  float shared = 0;                // maximum over ranks; at least `own`
  RandomKey key;                   // (seed, step, rank, slice)
  std::uint64_t first_index = 0;   // of the bucket's first value in its slice
  std::size_t count = 0;           // values of the bucket that are contiguous
  const Strata* strata = nullptr;  // see EncodeContext
};

/// Stateless and thread-safe. Made by Compressor::integer_codec().
class IntegerCodec {
 public:
  /// quantise() takes a bucket in parts that begin at multiples of this many values.
  static constexpr std::size_t kPartGranule = 64;

  virtual ~IntegerCodec() = default;

  virtual CodecId id() const noexcept = 0;
  /// Returns the version of codes and scales; bit 6 distinguishes them from the compressor's own
  /// payloads.
  virtual std::uint8_t format_version() const noexcept = 0;
  /// s: codes are -s ... s. At most 127.
  virtual int largest_code() const noexcept = 0;
  /// Values that share a scale; 0: all of a segment.
  virtual std::size_t bucket_size() const noexcept = 0;

  /// This rank's proposal for a bucket's scale: finite and at least 0.
  /// @throws Error{diverged} if a value is NaN or infinite
  virtual float own_scale(std::span<const float> bucket) const = 0;
  /// The value of code 1; step * s is finite.
  virtual float step(float shared) const noexcept = 0;
  /// codes[i] for the bucket's value offset + i.
  /// @pre offset is a multiple of kPartGranule; codes.size() == values.size()
  virtual void quantise(const SharedBucket& bucket, std::size_t offset,
                        std::span<const float> values, std::span<std::int8_t> codes) const = 0;
};

/// scale / count, rounded to nearest unless count times that would be infinite.
inline float step_of(double scale, std::uint32_t count) noexcept {
  const auto step = static_cast<float>(scale / count);
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<double>(step) * count > kLargest ? std::nextafter(step, 0.0f) : step;
}

/// Set in format_version() of integer codes.
inline constexpr std::uint8_t kIntegerVersionBit = 0x40;

}  // namespace eqt::codec
