// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/error.hpp"

namespace eqt::data {
namespace {

constexpr std::size_t kSpareFloats = 4;

void add_columns1(const float* line, const Taps& taps, std::size_t outputs, std::ptrdiff_t step,
                  std::uint8_t* out) {
  const auto most = static_cast<std::size_t>(taps.most);
  for (std::size_t i = 0; i < outputs; ++i, out += step) {
    float sum = 0;
    for (std::size_t k = 0; k < most; ++k)
      sum += taps.weights[i * most + k] * line[static_cast<std::size_t>(taps.first[i]) + k];
    *out = static_cast<std::uint8_t>(std::clamp(sum, 0.0f, 255.0f) + 0.5f);
  }
}

/// A place of the whole picture, in pixels of the reduced part.
double place_in(double place, int reduction, int first) { return place / reduction - first; }

}  // namespace

void Taps::make(double begin, double length, int lower, int upper, int outputs) {
  EQT_CHECK(lower < upper && length > 0 && outputs >= 1, "{} outputs of [{}, {})", outputs, lower,
            upper);
  const double scale = length / outputs, support = std::max(scale, 1.0);
  // The most pixels in an interval of this length, but no more than there are.
  most = static_cast<int>(std::min(2 * std::ceil(support) + 1, static_cast<double>(upper) - lower));
  first.resize(static_cast<std::size_t>(outputs));
  weights.assign(static_cast<std::size_t>(outputs) * static_cast<std::size_t>(most), 0);
  for (int i = 0; i < outputs; ++i) {
    const double centre = begin + (i + 0.5) * scale;
    const auto pixel = [&](double place) {
      return static_cast<int>(std::floor(std::clamp<double>(place, lower, upper)));
    };
    int from = std::min(pixel(centre - support + 0.5), upper - 1);
    const int end = std::clamp(pixel(centre + support + 0.5), from + 1, from + most);
    // Where all of `most` fit between the bounds, unused weights are those of pixels there.
    const int start = std::min(from, upper - most);
    float* const own = weights.data() + static_cast<std::ptrdiff_t>(i) * most;
    double sum = 0;
    const auto triangle = [&](int x) {
      return std::max(0.0, 1 - std::abs(x - centre + 0.5) / support);
    };
    for (int x = from; x < end; ++x) sum += triangle(x);
    for (int x = from; x < end; ++x)
      own[x - start] = sum > 0 ? static_cast<float>(triangle(x) / sum) : x == from ? 1.0f : 0.0f;
    first[static_cast<std::size_t>(i)] = start;
  }
}

void Resizer::resize(const PicturePart& from, const Sampling& sampling, int height, int width,
                     bool mirrored, std::uint8_t* out) {
  const int r = from.reduction;
  const auto lower = [r](int begin, int first, int size) {
    return std::clamp(begin / r - first, 0, size - 1);
  };
  const auto upper = [r](int end, int first, int size) {
    return std::clamp((end - 1) / r + 1 - first, 1, size);
  };
  const PixelArea& b = sampling.bounds;
  rows_.make(place_in(sampling.top, r, from.top), sampling.height / r,
             lower(b.top, from.top, from.height), upper(b.top + b.height, from.top, from.height),
             height);
  columns_.make(place_in(sampling.left, r, from.left), sampling.width / r,
                lower(b.left, from.left, from.width),
                upper(b.left + b.width, from.left, from.width), width);

  // Only columns that are looked at are summed.
  const int left = *std::ranges::min_element(columns_.first);
  const int right = *std::ranges::max_element(columns_.first) + columns_.most;
  for (int& first : columns_.first) first -= left;
  const auto channels = static_cast<std::size_t>(from.channels);
  const std::size_t values = static_cast<std::size_t>(right - left) * channels;
  line_.resize(values + kSpareFloats);
  std::fill(line_.end() - kSpareFloats, line_.end(), 0.0f);

  const std::size_t stride = static_cast<std::size_t>(from.width) * channels;
  const std::uint8_t* const begin = from.pixels.data() + static_cast<std::size_t>(left) * channels;
  const auto outputs = static_cast<std::size_t>(width);
  const std::ptrdiff_t step = mirrored ? -from.channels : from.channels;
  const auto most = static_cast<std::size_t>(rows_.most);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    add_rows(begin + static_cast<std::size_t>(rows_.first[y]) * stride, stride,
             std::span(rows_.weights).subspan(y * most, most), std::span(line_).first(values));
    std::uint8_t* const row = out + y * outputs * channels;
    std::uint8_t* const first = mirrored ? row + (outputs - 1) * channels : row;
    if (channels == 3) {
      add_columns3(line_.data(), columns_, step, first);
    } else {
      add_columns1(line_.data(), columns_, outputs, step, first);
    }
  }
}

}  // namespace eqt::data
