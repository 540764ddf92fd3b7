// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/magnitude_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/levels/ieee_math.hpp"
#include "codec/sparse/compact.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kSampled = 16, kOf = 64;  // values of a sample
constexpr std::size_t kAllBelow = 16384;        // shorter blocks are counted whole
constexpr int kBinShift = 20;                   // of a magnitude's bits
constexpr double kHeaderBits = 40;              // of a block
constexpr double kEscapeBits = 32;              // of a value that is sent as it is
constexpr double kStateBits = 19 * 32;          // of rANS, which hold 16 signs each
constexpr double kSignsInStates = 16 * 32;
constexpr double kFrequencyBits = 9;  // of an index in rANS's model
constexpr double kSetBits = 20;       // of a set of gaps: its size, its form, padding
constexpr double kRiceExcess = 1.03;  // of Rice codes over the entropy of gaps

double log2_of(double x) { return ieee_log(x) / kLn2; }

float lower_end(std::size_t bin) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bin) << kBinShift);
}

/// The bits of x items among y, by their number alone: y H(x / y).
double choice_bits(double x, double y) {
  if (x <= 0 || x >= y) return 0;
  return x * log2_of(y / x) + (y - x) * log2_of(y / (y - x));
}

}  // namespace

// With one level the bits and the error depend on the threshold alone; with several, a zone of half
// a step is best for Gaussian values, a wider one for values with longer tails.
double dead_zone_of(double rate) noexcept { return rate >= 1.5 ? 0.5 : 0.6; }

void MagnitudeHistogram::add(std::span<const float> values) {
  for (const float value : values) ++counts_[magnitude_bits(value) >> kBinShift];
  taken_ += values.size();
}

void MagnitudeHistogram::count(std::span<const float> values) {
  std::fill(counts_.begin(), counts_.end(), 0u);
  taken_ = 0;
  size_ = values.size();
  add(values);
}

void MagnitudeHistogram::sample(std::span<const float> values) {
  if (values.size() < kAllBelow) return count(values);
  std::fill(counts_.begin(), counts_.end(), 0u);
  taken_ = 0;
  size_ = values.size();
  // The place within the group moves, so that each column of a matrix is met.
  std::size_t place = 0;
  for (std::size_t at = 0; at + kOf <= values.size(); at += kOf) {
    add(values.subspan(at + place, kSampled));
    place = (place + kSampled) % kOf;
  }
}

// The tails of all bins within some octaves of the largest, scaled from the sample to the block.
void MagnitudeHistogram::accumulate(float largest) {
  const std::size_t last = magnitude_bits(largest) >> kBinShift;
  const std::size_t span = std::size_t{8} * kOctaves;
  first_bin_ = last > span ? last - span : 0;
  tails_.assign(last - first_bin_ + 2, Tail{});
  const double weight = static_cast<double>(size_) / static_cast<double>(taken_);
  for (std::size_t bin = last + 1; bin-- > first_bin_;) {
    const double n = counts_[bin] * weight;
    const double middle = (static_cast<double>(lower_end(bin)) + lower_end(bin + 1)) / 2;
    const Tail& next = tails_[bin + 1 - first_bin_];
    tails_[bin - first_bin_] = {next.count + n, next.sum + n * std::min<double>(middle, largest)};
  }
}

MagnitudeHistogram::Tail MagnitudeHistogram::above(double magnitude) const {
  const std::size_t bin = magnitude_bits(static_cast<float>(magnitude)) >> kBinShift;
  if (bin < first_bin_) return tails_.front();
  if (bin - first_bin_ + 1 >= tails_.size()) return {};
  const double low = lower_end(bin), high = lower_end(bin + 1);
  const double part = (high - magnitude) / (high - low);
  const Tail& here = tails_[bin - first_bin_];
  const Tail& next = tails_[bin - first_bin_ + 1];
  const double n = (here.count - next.count) * part;
  return {next.count + n, next.sum + n * (magnitude + high) / 2};
}

// The expected bits of the block: the fewer of rANS and of nested gaps, and what is sent as it is.
double MagnitudeHistogram::bits(const DeadZone& zone, double largest) const {
  const double step = zone.step, low = 1 << zone.low_bits;
  const auto all = static_cast<double>(size_);
  double inner = all;  // values that are not in an inner set yet
  double entropy = 0, gaps = 0, signs = 0, escapes = 0;
  std::uint32_t symbols = 1;
  for (std::uint32_t j = 1; j <= zone.escape; ++j) {
    const double from =
        zone.low_bits == 0 ? (zone.zone + (j - 1.0)) * step : (j * low - low / 2) * step;
    if (from > largest) break;
    const double outer = above(from).count;
    if (j == 1) signs = outer;
    entropy += choice_bits(outer, inner);
    gaps += kRiceExcess * choice_bits(outer, inner) + kSetBits;
    if (j == zone.escape) escapes = outer;
    inner = outer;
    ++symbols;
  }
  entropy += kFrequencyBits * symbols + kStateBits - std::min(signs, kSignsInStates) + signs;
  return kHeaderBits + std::min(entropy, gaps + signs) + kEscapeBits * escapes +
         zone.low_bits * all;
}

// Sets the centroids. A magnitude never moves by more than itself: first <= 2 z.
void MagnitudeHistogram::centre(DeadZone& zone, double largest) const {
  if (zone.low_bits > 0) return;
  const double step = zone.step, z = zone.zone;
  const Tail one = above(z * step), two = above((z + 1) * step);
  const Tail escaped = above((z + zone.escape - 1) * step);
  if (one.count > two.count) zone.first = (one.sum - two.sum) / (one.count - two.count) / step;
  zone.first = std::clamp(zone.first, z, std::min(1 + z, 2 * z));
  const double inside = two.count - escaped.count;
  if (inside > 0) {
    double moved = 0;  // sum of (j - 2) over the values
    for (std::uint32_t j = 3; j < zone.escape && (z + (j - 1.0)) * step <= largest; ++j)
      moved += above((z + (j - 1.0)) * step).count - escaped.count;
    zone.second = ((two.sum - escaped.sum) / step - moved) / inside;
  }
  zone.second = std::clamp(zone.second, 1 + z, 2 + z);
}

DeadZone MagnitudeHistogram::quantizer(double budget, double rate, float largest) {
  accumulate(largest);
  DeadZone zone{.zone = static_cast<float>(dead_zone_of(rate))};
  zone.low_bits = std::max(0, static_cast<int>(std::ceil(rate)) - 5);
  if (zone.low_bits > 0) zone.zone = 0.5f;
  zone.escape = rate <= 3 ? kNarrowEscape : kWideEscape;
  // Fewer bits than the largest value takes cannot be had.
  const double threshold = zone.low_bits > 0 ? 1 : static_cast<double>(zone.zone);
  double high = log2_of(static_cast<double>(largest) / threshold) - 0x1p-5;
  double low = high - kOctaves + 2;
  for (int i = 0; i < 18; ++i) {
    const double middle = (low + high) / 2;
    zone.step = static_cast<float>(ieee_exp(middle * kLn2));
    if (bits(zone, largest) > budget)
      low = middle;
    else
      high = middle;
  }
  // The step is sent as the upper half of a float.
  const auto exact = static_cast<float>(ieee_exp(high * kLn2));
  zone.step = std::bit_cast<float>((std::bit_cast<std::uint32_t>(exact) + 0x8000u) & 0xFFFF0000u);
  centre(zone, largest);
  return zone;
}

}  // namespace eqt::codec
