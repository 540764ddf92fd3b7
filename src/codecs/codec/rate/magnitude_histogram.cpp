// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/magnitude_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "codec/levels/ieee_math.hpp"
#include "codec/rate/dead_zone_kernels.hpp"
#include "codec/sparse/compact.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kAllBelow = 16384;  // shorter blocks are counted whole
// Upper bits of a magnitude that number its bin, and octaves that a histogram of them spans.
constexpr int kCoarse = 20, kMedium = 18, kFine = 17;
constexpr double kCoarseOctaves = 24, kMediumOctaves = 7;
constexpr double kHeaderBits = 40;      // of a block
constexpr double kEscapeBits = 32;      // of a value that is sent as it is
constexpr double kFewEscapes = 0.01;    // of the bits
constexpr double kStateBits = 19 * 32;  // of rANS, which hold 16 signs each
constexpr double kSignsInStates = 16 * 32;
constexpr double kFrequencyBits = 9;  // of an index in rANS's model
constexpr double kSetBits = 20;       // of a set of gaps: its size, its form, padding
constexpr double kRiceExcess = 1.03;  // of Rice codes over the entropy of gaps
// The step is sent with 7 bits of its fraction, and found as exactly.
constexpr double kStepOctaves = 0x1p-9;
constexpr double kExactly = 1e-3;          // of the budget
constexpr std::uint32_t kFewIndices = 15;  // have centroids that matter for the step
constexpr double kFewLevels = 0.5;         // up to this rate fewer indices are tried
constexpr double kSearched = 6;  // octaves below the step that spans all values with all indices

double log2_of(double x) { return ieee_log(x) / kLn2; }

/// A step that is sent as the upper half of a float.
float sent_step(double octave) {
  const auto exact = static_cast<float>(ieee_exp(octave * kLn2));
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(exact) + 0x8000u) & 0xFFFF0000u);
}

double times_log2(double x) { return x > 0 ? x * log2_of(x) : 0; }

}  // namespace

// With one level the bits and the error depend on the threshold alone; with several, a zone of half
// a step is best for Gaussian values, a wider one for values with longer tails.
double dead_zone_of(double rate) noexcept { return rate >= 1.5 ? 0.5 : 0.6; }

void MagnitudeHistogram::start(std::size_t size, float largest, int shift, double smallest) {
  counts_.fill(0);
  largest_ = largest;
  size_ = size;
  taken_ = 0;
  shift_ = shift;
  first_bin_ = magnitude_bits(static_cast<float>(smallest)) >> shift;
  last_bin_ = std::min<std::size_t>(magnitude_bits(largest) >> shift, first_bin_ + kBins - 1);
}

void MagnitudeHistogram::add(std::span<const float> values, bool sampled) {
  constexpr std::size_t kAtOnce = 8192;
  std::array<std::uint8_t, kAtOnce> bins;
  const std::size_t stride = sampled ? kAtOnce / kSampled * kSampledOf : kAtOnce;
  const BinRange range = {shift_, static_cast<std::uint32_t>(first_bin_),
                          static_cast<std::uint32_t>(last_bin_)};
  for (std::size_t at = 0; at < values.size(); at += stride) {
    const auto part = values.subspan(at, std::min(stride, values.size() - at));
    const auto to =
        std::span(bins).first(sampled ? part.size() / kSampledOf * kSampled : part.size());
    sampled ? sampled_bins(part, range, to) : magnitude_bins(part, range, to);
    count_bytes(to, counts_);
    taken_ += to.size();
  }
}

void MagnitudeHistogram::add_wide(std::span<const float> values, float largest, bool sampled) {
  start(values.size(), largest, kCoarse, std::ldexp(double{largest}, -kCoarseOctaves));
  add(values, sampled);
  accumulate();
}

void MagnitudeHistogram::sample(std::span<const float> values, float largest) {
  add_wide(values, largest, values.size() >= kAllBelow);
}

void MagnitudeHistogram::count(std::span<const float> values, float largest) {
  start(values.size(), largest, kMedium, std::ldexp(double{largest}, -kMediumOctaves));
  add(values, false);
  accumulate();
}

void MagnitudeHistogram::count_wide(std::span<const float> values, float largest) {
  add_wide(values, largest, false);
}

void MagnitudeHistogram::count_near(std::span<const float> values, float largest,
                                    double magnitude) {
  start(values.size(), largest, kFine, magnitude / 2);
  add(values, false);
  accumulate();
}

float MagnitudeHistogram::lower_end(std::size_t bin) const {
  if (bin > last_bin_) return largest_;
  return std::bit_cast<float>(static_cast<std::uint32_t>(bin) << shift_);
}

// n magnitudes, evenly spread from low to high, and those of a tail above.
MagnitudeHistogram::Tail MagnitudeHistogram::joined(double n, double low, double high,
                                                    const Tail& above) {
  return {above.count + n, above.sum + n * (low + high) / 2,
          above.square + n * (low * low + low * high + high * high) / 3};
}

// The tails of all bins, scaled from the sample to the block.
void MagnitudeHistogram::accumulate() {
  tails_[last_bin_ - first_bin_ + 1] = {};
  const double weight = static_cast<double>(size_) / static_cast<double>(taken_);
  for (std::size_t bin = last_bin_ + 1; bin-- > first_bin_;) {
    const double n = counts_[bin - first_bin_] * weight;
    tails_[bin - first_bin_] =
        joined(n, lower_end(bin), lower_end(bin + 1), tails_[bin + 1 - first_bin_]);
  }
}

MagnitudeHistogram::Tail MagnitudeHistogram::above(double magnitude) const {
  if (magnitude > largest_) return {};
  const std::size_t bin =
      std::min<std::size_t>(magnitude_bits(static_cast<float>(magnitude)) >> shift_, last_bin_);
  if (bin < first_bin_) return tails_.front();
  const double low = lower_end(bin), high = lower_end(bin + 1);
  const double part = (high - magnitude) / (high - low);
  const Tail& here = tails_[bin - first_bin_];
  const Tail& next = tails_[bin - first_bin_ + 1];
  return joined((here.count - next.count) * part, magnitude, high, next);
}

namespace {

/// The expected bits of indices by their numbers: of rANS, and of nested gaps.
class IndexBits {
 public:
  /// @param values of the block
  explicit IndexBits(double values) : all_(values), inner_(values) {}

  /// Adds an index, of which there are `inner` - `outer` values. @pre indices come in order from 0
  void add(double outer) {
    if (symbols_ == 0) nonzeros_ = outer;
    cells_ += times_log2(inner_ - outer);
    inner_ = outer;
    ++symbols_;
  }

  double rans() const {
    return entropy() + kFrequencyBits * symbols_ + kStateBits -
           std::min(nonzeros_, kSignsInStates) + nonzeros_;
  }
  double gaps() const { return kRiceExcess * entropy() + kSetBits * (symbols_ - 1) + nonzeros_; }

 private:
  double entropy() const { return times_log2(all_) - cells_; }

  double all_, inner_;   // values; of them those that have no index yet
  double nonzeros_ = 0;  // each has a sign
  double cells_ = 0;     // sum of n log n
  double symbols_ = 0;
};

}  // namespace

// The expected bits of the block: the fewer of rANS and of nested gaps, and what is sent as it is.
double MagnitudeHistogram::bits(DeadZone& zone) const {
  const double step = zone.step, low = 1 << zone.low_bits;
  IndexBits indices(static_cast<double>(size_));
  double outer = 0;
  for (std::uint32_t j = 1; j <= zone.last; ++j) {
    const double from =
        zone.low_bits == 0 ? (zone.zone + (j - 1.0)) * step : (j * low - low / 2) * step;
    outer = from > largest_ ? 0 : above(from).count;
    indices.add(outer);
    if (from > largest_) break;
  }
  zone.escapes = zone.last == kEscape ? kEscapeBits * outer : 0;
  if (outer > 0) indices.add(0);
  const auto lower = zone.low_bits * static_cast<double>(size_);
  return kHeaderBits + std::min(indices.rans(), indices.gaps()) + zone.escapes + lower;
}

double MagnitudeHistogram::gap_bits(const IndexCounts& counts) {
  double outer = 0;
  for (const std::uint64_t count : counts) outer += static_cast<double>(count);
  IndexBits indices(outer);
  for (std::size_t j = 0; j <= kEscape && outer > 0; ++j)
    indices.add(outer -= static_cast<double>(counts[j]));
  return indices.gaps();
}

// Sets the centroids of the indices 1 ... last, without the values that are sent as they are. A
// magnitude never moves by more than itself: first <= 2 z, and of a last index second <= 2 (1 + z).
void MagnitudeHistogram::centre(DeadZone& zone, std::uint32_t last, const Tail& escaped) const {
  const double step = zone.step, z = zone.zone;
  const Tail one = above(z * step), two = last > 1 ? above((z + 1) * step) : escaped;
  if (one.count > two.count) zone.first = (one.sum - two.sum) / (one.count - two.count) / step;
  zone.first = std::clamp(zone.first, z, std::min(1 + z, 2 * z));
  const double inside = two.count - escaped.count;
  if (inside > 0) {
    double moved = 0;  // sum of (j - 2) over the values
    for (std::uint32_t j = 3; j <= last && (z + (j - 1.0)) * step <= largest_; ++j)
      moved += above((z + (j - 1.0)) * step).count - escaped.count;
    zone.second = ((two.sum - escaped.sum) / step - moved) / inside;
  }
  zone.second = std::clamp(zone.second, 1 + z, last == 2 ? 2 * (1 + z) : 2 + z);
}

// The squared error, up to a term that the step does not change; sets the centroids.
double MagnitudeHistogram::error(DeadZone& zone, std::uint32_t last) const {
  const double step = zone.step, z = zone.zone;
  if (last > kFewIndices) {  // a step's square / 12 for each value that is not above the last index
    const double most = last * step;
    const Tail over = above(most + step / 2);
    return (static_cast<double>(size_) - over.count) * step * step / 12 + over.square -
           2 * most * over.sum + most * most * over.count;
  }
  centre(zone, last, {});
  double error = 0;
  Tail here = above(z * step);
  for (std::uint32_t j = 1; j <= last && here.count > 0; ++j) {
    const Tail next = j < last ? above((z + j) * step) : Tail{};
    const double value = (j == 1 ? zone.first : zone.second + (j - 2.0)) * step;
    error -= value * (2 * (here.sum - next.sum) - value * (here.count - next.count));
    here = next;
  }
  return error;
}

DeadZone MagnitudeHistogram::of_least_error(std::uint32_t last) const {
  DeadZone zone{.zone = last == 1 ? 0.6f : 0.5f};
  const auto error_at = [&](double octave) {
    zone.step = static_cast<float>(ieee_exp(octave * kLn2));
    return error(zone, last);
  };
  // Octave by octave from the largest step, then by the golden section around the best.
  double best = log2_of(static_cast<double>(largest_) / zone.threshold()) - 0x1p-5;
  double least = error_at(best);
  const double top = best;
  for (double octave = top - 1; octave > top - kSearched - log2_of(last); --octave) {
    const double e = error_at(octave);
    if (e >= least) continue;
    least = e;
    best = octave;
  }
  constexpr double kGolden = 0.6180339887498949;
  double low = best - 1, high = std::min(best + 1, top);
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = error_at(left), at_right = error_at(right);
  while (high - low > 0x1p-6) {
    if (at_left < at_right) {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - kGolden * (high - low);
      at_left = error_at(left);
    } else {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + kGolden * (high - low);
      at_right = error_at(right);
    }
  }
  zone.step = sent_step((low + high) / 2);
  centre(zone, last, {});
  return zone;
}

DeadZone MagnitudeHistogram::fit(double budget, double zone_of_rate, int low_bits,
                                 std::uint32_t last) const {
  DeadZone zone{.zone = low_bits > 0 ? 0.5f : static_cast<float>(zone_of_rate),
                .low_bits = low_bits,
                .last = last};
  // Fewer bits than the largest value takes cannot be had.
  const double threshold = zone.threshold();
  double high = log2_of(static_cast<double>(largest_) / threshold) - 0x1p-5;
  double low = std::min(high, log2_of(static_cast<double>(lower_end(first_bin_ + 1)) / threshold));
  const auto excess_at = [&](double octave) {
    zone.step = static_cast<float>(ieee_exp(octave * kLn2));
    return bits(zone) - budget;
  };
  // The secant of a bracket (regula falsi); the end that stays counts half (Illinois), so that it
  // moves, too. The bits are known to a tenth of a percent at most.
  double over = excess_at(low), under = excess_at(high);
  if (over <= 0) high = low;
  int stayed = 0;  // times that an end stayed, below 0 for the lower one
  while (over > 0 && under < 0 && high - low > kStepOctaves) {
    const double next = low + (high - low) * over / (over - under);
    const double excess = excess_at(next);
    if (excess > 0) {
      low = next;
      over = excess;
      stayed = std::max(stayed, 0) + 1;
      if (stayed > 1) under /= 2;
    } else {
      high = next;
      under = excess;
      stayed = std::min(stayed, 0) - 1;
      if (stayed < -1) over /= 2;
      if (excess > -kExactly * budget) break;
    }
  }
  zone.step = sent_step(high);
  bits(zone);
  return zone;
}

DeadZone MagnitudeHistogram::quantizer(double budget, double rate) const {
  int low_bits = std::max(0, static_cast<int>(std::ceil(rate)) - 4);
  DeadZone best = fit(budget, dead_zone_of(rate), low_bits);
  // Values far from all others take fewer bits with more lower bits than as they are.
  while (best.escapes > kFewEscapes * budget && ++low_bits <= kMostLowBits) {
    const DeadZone next = fit(budget, dead_zone_of(rate), low_bits);
    if (next.step >= best.step) break;
    best = next;
  }
  // An index costs a set of gaps, of which few values are not worth it.
  if (rate <= kFewLevels) {
    double least = error(best, kEscape);
    for (const std::uint32_t last : {1u, 2u}) {
      DeadZone fewer = fit(budget, dead_zone_of(rate), 0, last);
      if (const double e = error(fewer, last); e < least) {
        least = e;
        best = fewer;
      }
    }
  }
  if (best.last == kEscape && best.low_bits == 0) {
    const double end =
        (static_cast<double>(best.zone) + kEscape - 1) * static_cast<double>(best.step);
    centre(best, kEscape - 1, above(end));
  }
  return best;
}

}  // namespace eqt::codec
