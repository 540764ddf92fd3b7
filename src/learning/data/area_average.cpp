// SPDX-License-Identifier: Apache-2.0
#include "data/area_average.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/error.hpp"

namespace eqt::data {
namespace {

/// Part of an original row or column that one of the result covers, in 1/side of its pixels.
struct Part {
  std::size_t at = 0;
  std::uint32_t weight = 0;
};

/// The parts that each of `side` rows or columns covers of `length`; the weights of one add up to
/// `length`.
std::vector<std::vector<Part>> parts_of(std::size_t length, std::size_t side) {
  std::vector<std::vector<Part>> parts(side);
  for (std::size_t i = 0; i < side; ++i) {
    const std::size_t first = i * length,
                      last = first + length;  // pixel `at` is side * [at, at + 1)
    for (std::size_t at = first / side; at * side < last; ++at) {
      const std::size_t covered = std::min(last, (at + 1) * side) - std::max(first, at * side);
      parts[i].push_back({at, static_cast<std::uint32_t>(covered)});
    }
  }
  return parts;
}

/// The mean of one channel over an area: half of it is added before the division, to round.
std::uint8_t mean_over(const std::uint8_t* picture, const ImageShape& shape,
                       const std::vector<Part>& rows, const std::vector<Part>& columns,
                       std::size_t channel) {
  const auto width = static_cast<std::size_t>(shape.width);
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto area = static_cast<std::uint64_t>(shape.height) * width;
  std::uint64_t sum = area / 2;
  for (const Part& y : rows) {
    for (const Part& x : columns)
      sum +=
          std::uint64_t{y.weight} * x.weight * picture[(y.at * width + x.at) * channels + channel];
  }
  return static_cast<std::uint8_t>(sum / area);
}

}  // namespace

LabelledBytes area_average(const LabelledBytes& pictures, int side) {
  const ImageShape from = pictures.shape;
  EQT_CHECK(side > 0 && side <= from.height && side <= from.width, "side {} of {} x {}", side,
            from.height, from.width);
  LabelledBytes smaller{{}, pictures.labels, {from.channels, side, side}, pictures.classes};
  smaller.pixels.resize(smaller.labels.size() * smaller.shape.values());
  const auto channels = static_cast<std::size_t>(from.channels);
  const auto rows = parts_of(static_cast<std::size_t>(from.height), static_cast<std::size_t>(side));
  const auto columns =
      parts_of(static_cast<std::size_t>(from.width), static_cast<std::size_t>(side));
  std::uint8_t* out = smaller.pixels.data();
  for (std::size_t i = 0; i < smaller.labels.size(); ++i) {
    const std::uint8_t* const picture = pictures.pixels.data() + i * from.values();
    for (const auto& row : rows) {
      for (const auto& column : columns) {
        for (std::size_t c = 0; c < channels; ++c)
          *out++ = mean_over(picture, from, row, column, c);
      }
    }
  }
  return smaller;
}

}  // namespace eqt::data
