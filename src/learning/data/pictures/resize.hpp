// SPDX-License-Identifier: Apache-2.0
// Resizes a part of a picture.
//
// Source   the filter that Pillow and torchvision call bilinear with antialiasing: a triangle as
//          wide as two pixels of the larger of the two grids, cut at the bounds, with weights that
//          add to 1
// Differs  from Pillow: values between the two directions are not rounded to bytes
//
// float32 without fused multiply-adds, always in the same order: the same bytes on every machine.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/pictures/picture.hpp"

namespace eqt::data {

/// A rectangle of a picture that is sampled, with sides at any place; pixel i covers [i, i + 1).
struct Sampling {
  double left = 0;
  double top = 0;
  double width = 0;  // above 0
  double height = 0;
  PixelArea bounds;  // pixels outside are not looked at; the rectangle's centre lies inside
};

/// The weights of one direction: output i is the sum of weights[i most + k] input[first[i] + k]
/// over k < most. Weights past an output's own are 0.
struct Taps {
  std::vector<int> first;      // (outputs), at least 0
  std::vector<float> weights;  // (outputs, most)
  int most = 0;

  /// The weights for `outputs` pixels of [begin, begin + length), from pixels [lower, upper).
  /// @pre lower < upper, length > 0
  void make(double begin, double length, int lower, int upper, int outputs);
};

class Resizer {
 public:
  /// Writes (height, width, channels) bytes to `out`, each row reversed if `mirrored`.
  /// @param sampling in pixels of the picture (not of a reduced part)
  /// @pre `from` holds the sampling's bounds
  void resize(const PicturePart& from, const Sampling& sampling, int height, int width,
              bool mirrored, std::uint8_t* out);

 private:
  Taps rows_, columns_;
  std::vector<float> line_;  // a row of weighted sums over rows, with some floats to spare
};

/// Adds rows of a picture: line[x] = the sum over k of weights[k] rows[k stride + x].
void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::span<float> line);

/// The weighted columns of a line (columns, 3) as bytes: output i goes to out + i step. Reads one
/// float beyond the line.
void add_columns3(const float* line, const Taps& taps, std::ptrdiff_t step, std::uint8_t* out);

}  // namespace eqt::data
