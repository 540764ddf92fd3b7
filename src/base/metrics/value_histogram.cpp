// SPDX-License-Identifier: Apache-2.0
#include "metrics/value_histogram.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.hpp"

namespace eqt::metrics {
namespace {

constexpr std::uint32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;

/// Appends bins from left to right.
class Bins {
 public:
  explicit Bins(HistogramRecord& record) : record_(record) {}

  void append(double upper_limit, std::uint64_t count) {
    if (count == 0) {
      gap_ = upper_limit;
      has_gap_ = true;
      return;
    }
    if (std::exchange(has_gap_, false) && !record_.counts.empty()) push(gap_, 0);
    push(upper_limit, static_cast<double>(count));
  }

 private:
  void push(double upper_limit, double count) {
    record_.upper_limits.push_back(upper_limit);
    record_.counts.push_back(count);
  }

  HistogramRecord& record_;
  double gap_ = 0;
  bool has_gap_ = false;
};

}  // namespace

void ValueHistogram::add(std::span<const float> values) noexcept {
  for (const float v : values) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t magnitude = bits & kMagnitude;
    if (magnitude >= kInfinity) continue;
    least_ = number_ == 0 ? v : std::min(least_, v);
    most_ = number_ == 0 ? v : std::max(most_, v);
    ++number_;
    sum_ += static_cast<double>(v);
    squares_ += static_cast<double>(v) * static_cast<double>(v);
    const std::uint32_t key = magnitude >> kShift;
    if (key < kFirstKey) {
      ++middle_;
    } else {
      ++(bits > kMagnitude ? below_ : above_)[key - kFirstKey];
    }
  }
}

void ValueHistogram::add(const ValueHistogram& other) noexcept {
  if (other.empty()) return;
  least_ = empty() ? other.least_ : std::min(least_, other.least_);
  most_ = empty() ? other.most_ : std::max(most_, other.most_);
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    below_[i] += other.below_[i];
    above_[i] += other.above_[i];
  }
  middle_ += other.middle_;
  number_ += other.number_;
  sum_ += other.sum_;
  squares_ += other.squares_;
}

HistogramRecord ValueHistogram::record(std::string name, StepId step) const {
  EQT_CHECK(number_ > 0, "histogram {} of nothing", name);
  HistogramRecord record;
  record.step = step;
  record.name = std::move(name);
  record.least = static_cast<double>(least_);
  record.most = static_cast<double>(most_);
  record.sum = sum_;
  record.sum_squares = squares_;
  const auto edge = [](std::uint32_t i) {
    return static_cast<double>(std::bit_cast<float>((kFirstKey + i) << kShift));
  };
  Bins bins(record);
  for (std::uint32_t i = kKeys; i-- > 0;) bins.append(-edge(i), below_[i]);
  bins.append(edge(0), middle_);
  // The last edge is infinite.
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    bins.append(i + 1 < kKeys ? edge(i + 1) : std::max(record.most, edge(i)), above_[i]);
  }
  return record;
}

}  // namespace eqt::metrics
