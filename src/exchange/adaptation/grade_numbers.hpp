// SPDX-License-Identifier: Apache-2.0
// Where numbers stand in what the adaptation of grades exchanges and keeps. Private to the room.

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "adaptation/gradient_noise.hpp"

namespace eqt::adaptation::grade_numbers {

/// Says where numbers stand in what a rank sends to the others.
struct Row {
  std::size_t grades = 0, slices = 0, buckets = 0;

  static constexpr std::size_t kSamples = 0, kWeight = 1, kForward = 2, kBackward = 3, kDelayed = 4,
                               kCommunicating = 5, kAll = 6, kEncode = 7;
  std::size_t decode() const { return kEncode + grades; }
  std::size_t ready() const { return kEncode + 2 * grades; }
  std::size_t square(std::size_t slice) const { return slice_at(slice); }
  std::size_t product(std::size_t slice) const { return slice_at(slice) + 1; }
  std::size_t change(std::size_t slice) const { return slice_at(slice) + 2; }
  std::size_t error(std::size_t slice) const { return slice_at(slice) + 3; }
  std::size_t bytes(std::size_t slice) const { return slice_at(slice) + 3 + grades; }
  std::size_t size() const { return slice_at(slices); }

 private:
  std::size_t slice_at(std::size_t slice) const {
    return ready() + buckets + slice * (3 + 2 * grades);
  }
};

/// Says where numbers stand in what clocks have measured, whose means are kept.
struct Clocks {
  std::size_t grades = 0, buckets = 0;

  static constexpr std::size_t kForward = 0, kBackward = 1, kContention = 2, kEncode = 3;
  std::size_t decode() const { return kEncode + grades; }
  std::size_t ready() const { return kEncode + 2 * grades; }
  std::size_t size() const { return ready() + buckets; }
};

/// Says where numbers stand in an observation of all ranks, whose means are kept.
struct Means {
  std::size_t grades = 0, slices = 0;

  std::size_t signal(std::size_t slice) const { return slice_at(slice); }
  std::size_t sample_noise(std::size_t slice) const { return slice_at(slice) + 1; }
  std::size_t square(std::size_t slice) const { return slice_at(slice) + 2; }
  std::size_t error(std::size_t slice) const { return slice_at(slice) + 3; }
  std::size_t bytes(std::size_t slice) const { return slice_at(slice) + 3 + grades; }
  std::size_t size() const { return slice_at(slices); }

 private:
  std::size_t slice_at(std::size_t slice) const { return slice * (3 + 2 * grades); }
};

/// Returns the mean of the ranks' numbers at this place, whatever their order.
inline double mean_at(const std::vector<std::vector<double>>& rows, std::size_t place) {
  std::vector<double> values;
  for (const std::vector<double>& row : rows) values.push_back(row[place]);
  return ordered_sum(std::move(values)) / static_cast<double>(rows.size());
}

}  // namespace eqt::adaptation::grade_numbers
