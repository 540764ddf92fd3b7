// SPDX-License-Identifier: Apache-2.0
#include "model/range_kernels.hpp"

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/range_kernels.cpp"
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

}  // namespace eqt::model
#endif
