// SPDX-License-Identifier: Apache-2.0
// Monte-Carlo shows what a codec does with values: the real one encodes and decodes with many seeds
// vectors drawn from named distributions, which are a pure function of (name, count, seed).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/message.hpp"

namespace eqt::theory {

/// A distribution: its name, and one line about it.
struct Source {
  std::string_view name;
  std::string_view about;
};

std::span<const Source> sources();

/// `count` values. Sources have different scales, which do not affect relative variances and code
/// lengths.
/// @throws Error{bug} for a name that is not in sources()
std::vector<float> draw(std::string_view source, std::size_t count, std::uint64_t seed);

/// A mean over draws, with the standard deviation of a single draw.
struct Sampled {
  double mean = 0;
  double deviation = 0;
  int draws = 0;
  /// Standard error of the mean; 0 for a codec without random numbers.
  double standard_error() const;
};

struct Sample {
  Sampled variance;             // |Q(v) - v|^2 / |v|^2
  Sampled payload_bits;         // of compressed segments: 8 * bytes
  std::vector<double> decoded;  // the mean over draws, per value
};

/// Encodes `segments` of `values` `draws` times, each time with another seed. Segments that are not
/// compressed count as exact, with no payload bits.
/// @pre draws >= 1; a codec that needs a shared scale gets its own
/// @throws Error{diverged} if a value is not finite
Sample sample_codec(const codec::Compressor& compressor, std::span<const codec::Segment> segments,
                    std::span<const float> values, int draws, std::uint64_t seed);

/// All values as one compressed segment.
std::vector<codec::Segment> one_segment(std::size_t count);

}  // namespace eqt::theory
