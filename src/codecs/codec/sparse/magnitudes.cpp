// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/magnitudes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/sparse/compact.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr int kBinBits = 8;
constexpr std::size_t kBins = (std::size_t{1} << kBinBits) + 1;
constexpr std::uint32_t kOctaves = 16u << 23;  // in the bits of a float

/// Magnitudes that were counted together.
struct Bin {
  double sum = 0;
  double count = 0;

  void add(const Bin& other) {
    sum += other.sum;
    count += other.count;
  }
};

/// The bins that are not empty, ascending. Magnitudes below the upper octaves share the first bin.
class Bins {
 public:
  explicit Bins(std::span<const float> values) {
    const MagnitudeRange range = range_of(values);
    const std::uint32_t largest = magnitude_bits(range.largest);
    const std::uint32_t lowest =
        std::max(magnitude_bits(range.smallest), largest - std::min(largest, kOctaves));
    const int shift = std::max(static_cast<int>(std::bit_width(largest - lowest)) - kBinBits, 0);
    for (const float value : values) {
      const std::uint32_t bits = magnitude_bits(value);
      bins_[bits < lowest ? 0 : 1 + ((bits - lowest) >> shift)].add(
          {std::abs(static_cast<double>(value)), 1});
    }
    const auto end =
        std::remove_if(bins_.begin(), bins_.end(), [](const Bin& bin) { return bin.count == 0; });
    used_ = static_cast<std::size_t>(end - bins_.begin());
  }

  std::span<const Bin> used() const { return std::span(bins_).first(used_); }

 private:
  std::array<Bin, kBins> bins_{};
  std::size_t used_ = 0;
};

/// Divides bins into ranges. The squared error of means is the least where sum^2 / count, added
/// over the ranges, is the largest. The best last range of the first `end` bins begins no earlier
/// as `end` grows, so that each half of the ends has half of the beginnings to try.
class Division {
 public:
  explicit Division(std::span<const Bin> bins) : bins_(bins.size()) {
    for (std::size_t i = 0; i < bins_; ++i) {
      until_[i + 1] = until_[i];
      until_[i + 1].add(bins[i]);
    }
    for (std::size_t end = 1; end <= bins_; ++end) best_[end] = gain(0, end);
  }

  /// Divides each number of first bins that is large enough into one range more.
  void add_range() {
    before_ = best_;
    ++ranges_;
    improve(ranges_, bins_, ranges_ - 1, bins_ - 1);
  }

  /// Calls take(range, begin, end) for the ranges, from the last.
  template <typename Take>
  void for_each_range(Take take) const {
    std::size_t end = bins_;
    for (std::size_t range = ranges_; range > 0; --range) {
      const std::size_t begin = begins_[range - 1][end];
      take(range - 1, begin, end);
      end = begin;
    }
  }

 private:
  double gain(std::size_t begin, std::size_t end) const {
    const double sum = until_[end].sum - until_[begin].sum;
    return sum * sum / (until_[end].count - until_[begin].count);
  }

  /// Finds the best beginning, from `first` to `last`, for each end from `low` to `high`.
  void improve(std::size_t low, std::size_t high, std::size_t first, std::size_t last) {
    if (low > high) return;
    const std::size_t end = low + (high - low) / 2;
    std::size_t begin = first;
    double best = -1;
    for (std::size_t i = first; i <= std::min(last, end - 1); ++i) {
      const double found = before_[i] + gain(i, end);
      if (found > best) {
        best = found;
        begin = i;
      }
    }
    best_[end] = best;
    begins_[ranges_ - 1][end] = static_cast<std::uint16_t>(begin);
    improve(low, end - 1, first, begin);
    improve(end + 1, high, begin, last);
  }

  std::size_t bins_;
  std::size_t ranges_ = 1;
  std::array<Bin, kBins + 1> until_{};      // sums over the first bins
  std::array<double, kBins + 1> best_{};    // by the number of first bins, with all ranges
  std::array<double, kBins + 1> before_{};  // with one range fewer
  std::array<std::array<std::uint16_t, kBins + 1>, kMostCentroids> begins_{};  // of the last range
};

/// Returns the mean of bins, whose sums are added anew: differences would lose bits.
double mean_of(std::span<const Bin> bins) {
  Bin all;
  for (const Bin& bin : bins) all.add(bin);
  return all.sum / all.count;
}

}  // namespace

MagnitudeRange range_of(std::span<const float> values) {
  if (values.empty()) return {};
  std::uint32_t smallest = magnitude_bits(values[0]), largest = smallest;
  for (const float value : values) {
    smallest = std::min(smallest, magnitude_bits(value));
    largest = std::max(largest, magnitude_bits(value));
  }
  return {std::bit_cast<float>(smallest), std::bit_cast<float>(largest)};
}

void spread_between(MagnitudeRange range, std::span<float> to) {
  EQT_CHECK(to.size() > 1, "{} magnitudes", to.size());
  const double first = std::sqrt(static_cast<double>(range.smallest));
  const double last = std::sqrt(static_cast<double>(range.largest));
  for (std::size_t j = 0; j < to.size(); ++j) {
    const double part = static_cast<double>(j) / static_cast<double>(to.size() - 1);
    const double root = first + (last - first) * part;
    to[j] = static_cast<float>(root * root);
  }
}

void fit_centroids(std::span<const float> values, std::span<float> to) {
  EQT_CHECK(!values.empty() && to.size() <= kMostCentroids, "{} centroids of {} values", to.size(),
            values.size());
  const Bins bins(values);
  const auto used = bins.used();
  const std::size_t ranges = std::min(to.size(), used.size());
  Division division(used);
  for (std::size_t range = 1; range < ranges; ++range) division.add_range();
  division.for_each_range([&](std::size_t range, std::size_t begin, std::size_t end) {
    to[range] = static_cast<float>(mean_of(used.subspan(begin, end - begin)));
  });
  // Rounding of long sums may exceed the distance of two means.
  for (std::size_t j = 1; j < to.size(); ++j)
    to[j] = j < ranges ? std::max(to[j], to[j - 1]) : to[j - 1];
}

NearestMagnitude::NearestMagnitude(std::span<const float> magnitudes)
    : half_(magnitudes.size() / 2) {
  EQT_CHECK(std::has_single_bit(magnitudes.size()) && magnitudes.size() <= kMostMagnitudes,
            "{} magnitudes", magnitudes.size());
  for (std::size_t j = 0; j + 1 < magnitudes.size(); ++j)
    bounds_[j] = (static_cast<double>(magnitudes[j]) + static_cast<double>(magnitudes[j + 1])) / 2;
}

std::uint32_t NearestMagnitude::operator()(float value) const noexcept {
  const double magnitude = std::abs(static_cast<double>(value));
  std::size_t index = 0;
  for (std::size_t step = half_; step > 0; step /= 2)
    index += magnitude > bounds_[index + step - 1] ? step : 0;
  return static_cast<std::uint32_t>(index);
}

}  // namespace eqt::codec
