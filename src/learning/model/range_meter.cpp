// SPDX-License-Identifier: Apache-2.0
#include "model/range_meter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.hpp"
#include "model/norm_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/range_meter.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Widens the extremes of the channels from `c` on, as many as the tag has lanes.
template <class D>
HWY_INLINE void update_columns(D d, std::span<const float> x, std::size_t channels,
                               std::int32_t first_row, const Extremes& extremes, std::size_t c) {
  const hn::RebindToSigned<D> di;
  auto max = hn::LoadU(d, &extremes.max[c]), min = hn::LoadU(d, &extremes.min[c]);
  auto max_row = hn::LoadU(di, &extremes.max_row[c]), min_row = hn::LoadU(di, &extremes.min_row[c]);
  auto row = hn::Set(di, first_row);
  const auto one = hn::Set(di, 1);
  for (std::size_t i = c; i < x.size(); i += channels) {
    const auto v = hn::LoadU(d, &x[i]);
    const auto above = hn::Gt(v, max), below = hn::Lt(v, min);
    max = hn::IfThenElse(above, v, max);
    min = hn::IfThenElse(below, v, min);
    max_row = hn::IfThenElse(hn::RebindMask(di, above), row, max_row);
    min_row = hn::IfThenElse(hn::RebindMask(di, below), row, min_row);
    row = hn::Add(row, one);
  }
  hn::StoreU(max, d, &extremes.max[c]);
  hn::StoreU(min, d, &extremes.min[c]);
  hn::StoreU(max_row, di, &extremes.max_row[c]);
  hn::StoreU(min_row, di, &extremes.min_row[c]);
}

void UpdateExtremes(std::span<const float> x, std::size_t first_row, const Extremes& extremes) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t channels = extremes.max.size(), lanes = hn::Lanes(full);
  const auto row = static_cast<std::int32_t>(first_row);
  std::size_t c = 0;
  for (; c + lanes <= channels; c += lanes) update_columns(full, x, channels, row, extremes, c);
  for (; c < channels; ++c) update_columns(single, x, channels, row, extremes, c);
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model {

HWY_EXPORT(UpdateExtremes);

void update_extremes(std::span<const float> x, std::size_t first_row, const Extremes& extremes) {
  EQT_DCHECK(x.size() % extremes.max.size() == 0, "{} values in {} channels", x.size(),
             extremes.max.size());
  HWY_DYNAMIC_DISPATCH(UpdateExtremes)(x, first_row, extremes);
}

double range_factor(std::size_t n) {
  return 0.5 * 0.35 * (1 + std::sqrt(std::numbers::pi * std::log(4.0))) /
         std::sqrt(2 * std::log(static_cast<double>(n)));
}

double inverse_range(double range, std::size_t n) {
  return 1.0 / (range_factor(n) * range + kNormEpsilon);
}

std::size_t chunk_values(std::size_t count, const std::string& layer, const std::string& what) {
  if (count % kRangeChunks != 0 || count / kRangeChunks < 2) {
    fail(Kind::usage,
         "{}: expected a multiple of {} that is at least {}, to cut {} into chunks for a range, "
         "found {}; choose another model.normalization, or batch and image sizes that are powers "
         "of 2",
         layer, kRangeChunks, 2 * kRangeChunks, what, count);
  }
  return count / kRangeChunks;
}

RangeMeter::RangeMeter(std::size_t rows, std::size_t channels, std::size_t groups)
    : rows_(rows),
      channels_(channels),
      groups_(groups),
      chunk_(rows * (channels / groups) / kRangeChunks) {
  EQT_CHECK(rows * (channels / groups) % kRangeChunks == 0, "{} values of {} channels", rows,
            channels / groups);
  for (std::size_t i = 0; i < kRangeChunks; ++i) cuts_.push_back(i * chunk_ % rows);
  std::ranges::sort(cuts_);
  cuts_.erase(std::ranges::unique(cuts_).begin(), cuts_.end());
  cuts_.push_back(rows);
  parts_.assign(cuts_.size() - 1, ExtremesBuffer(channels));
}

void RangeMeter::scan(std::span<const float> x) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].clear();
    const std::size_t first = cuts_[p] * channels_, last = cuts_[p + 1] * channels_;
    update_extremes(x.subspan(first, last - first), cuts_[p], parts_[p].extremes());
  }
}

double RangeMeter::mean_range(std::size_t group, std::span<std::int32_t> where) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, kRangeChunks> max, min;
  max.fill(-kInfinity);
  min.fill(kInfinity);
  std::ranges::fill(where, 0);  // for chunks of NaN only
  const std::size_t width = channels_ / groups_;
  // In the order of the values, so that the first of equal values is kept.
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t c = group * width + i;
    const auto offset = [&](std::int32_t row) {
      return static_cast<std::int32_t>(static_cast<std::size_t>(row) * channels_ + c);
    };
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Extremes part = parts_[p].extremes();
      const std::size_t chunk = (i * rows_ + cuts_[p]) / chunk_;
      if (part.max[c] > max[chunk]) {
        max[chunk] = part.max[c];
        where[2 * chunk] = offset(part.max_row[c]);
      }
      if (part.min[c] < min[chunk]) {
        min[chunk] = part.min[c];
        where[2 * chunk + 1] = offset(part.min_row[c]);
      }
    }
  }
  double sum = 0;
  for (std::size_t k = 0; k < kRangeChunks; ++k) {
    sum += static_cast<double>(max[k]) - static_cast<double>(min[k]);
  }
  return sum / kRangeChunks;
}

}  // namespace eqt::model
#endif  // HWY_ONCE
