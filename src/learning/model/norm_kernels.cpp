// SPDX-License-Identifier: Apache-2.0
#include "model/norm_kernels.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/norm_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef EQT_MODEL_NORM_KERNELS_ONCE
#define EQT_MODEL_NORM_KERNELS_ONCE
namespace eqt::model {

// Rows of few channels are processed several at a time, as one wide row whose parameters repeat, so
// that vectors are full and sums have enough independent accumulators to hide an addition's
// latency.
constexpr std::size_t kWideRow = 256;  // [floats] 16 vectors of AVX-512

class WideRow {
 public:
  explicit WideRow(std::size_t channels)
      : channels_(channels), width_(std::max<std::size_t>(1, kWideRow / channels) * channels) {}

  std::size_t width() const { return width_; }

  /// The parameter of each column: `values` itself or its repetition in `memory`.
  const float* spread(std::span<const float> values, std::span<float> memory) const {
    if (width_ == channels_) return values.data();
    for (std::size_t i = 0; i < width_; i += channels_) {
      std::copy(values.begin(), values.end(), memory.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return memory.data();
  }

  /// One zeroed sum per column: `sums` itself or `memory`.
  float* start(std::span<float> sums, std::span<float> memory) const {
    float* columns = width_ == channels_ ? sums.data() : memory.data();
    std::fill_n(columns, width_, 0.0f);
    return columns;
  }

  /// Adds up the columns of each channel.
  void finish(const float* columns, std::span<float> sums) const {
    if (width_ == channels_) return;
    for (std::size_t c = 0; c < channels_; ++c) {
      float sum = 0;
      for (std::size_t i = c; i < width_; i += channels_) sum += columns[i];
      sums[c] = sum;
    }
  }

 private:
  std::size_t channels_;
  std::size_t width_;  // [floats] a multiple of channels_
};

using WideMemory = std::array<float, kWideRow>;

}  // namespace eqt::model
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(tag, i, column) for each vector of `count` values that lie in rows of `width`.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t count, std::size_t width, const Body& body) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full);
  for (std::size_t row = 0; row < count; row += width) {
    const std::size_t columns = std::min(width, count - row);
    std::size_t c = 0;
    for (; c + lanes <= columns; c += lanes) body(full, row + c, c);
    for (; c < columns; ++c) body(single, row + c, c);
  }
}

template <class D>
HWY_INLINE void add_to(D d, float* sums, hn::Vec<D> v) {
  hn::StoreU(hn::Add(hn::LoadU(d, sums), v), d, sums);
}

void ChannelMoments(std::span<const float> x, std::span<float> mean, std::span<float> squares) {
  const WideRow wide(mean.size());
  WideMemory memory, mean_memory;
  float* const sums = wide.start(mean, memory);
  for_each_vector(x.size(), wide.width(), [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    add_to(d, sums + c, hn::LoadU(d, &x[i]));
  });
  wide.finish(sums, mean);
  const float scale = static_cast<float>(mean.size()) / static_cast<float>(x.size());
  for (float& m : mean) m *= scale;

  // A second pass over the block, which is still in the cache: differences from its mean do not
  // cancel.
  const float* const means = wide.spread(mean, mean_memory);
  float* const totals = wide.start(squares, memory);
  for_each_vector(x.size(), wide.width(), [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    const auto t = hn::Sub(hn::LoadU(d, &x[i]), hn::LoadU(d, means + c));
    hn::StoreU(hn::MulAdd(t, t, hn::LoadU(d, totals + c)), d, totals + c);
  });
  wide.finish(totals, squares);
}

constexpr std::size_t kPivotRows = 8;

/// Computes the moments of the channels from `c` on, as many as the tag has lanes.
template <class D>
HWY_INLINE void moments_of_columns(D d, std::span<const float> x, std::size_t c,
                                   std::span<float> mean, std::span<float> squares) {
  const std::size_t channels = mean.size(), rows = x.size() / channels;
  const auto load = [&](std::size_t row) HWY_ATTR { return hn::LoadU(d, &x[row * channels + c]); };
  const std::size_t pivots = std::min(rows, kPivotRows);
  auto pivot = hn::Zero(d);
  for (std::size_t i = 0; i < pivots; ++i) pivot = hn::Add(pivot, load(i * rows / pivots));
  pivot = hn::Mul(pivot, hn::Set(d, 1.0f / static_cast<float>(pivots)));
  // Two accumulators for each sum hide an addition's latency.
  auto sum = hn::Zero(d), square = hn::Zero(d), sum2 = hn::Zero(d), square2 = hn::Zero(d);
  std::size_t row = 0;
  for (; row + 2 <= rows; row += 2) {
    const auto a = hn::Sub(load(row), pivot), b = hn::Sub(load(row + 1), pivot);
    sum = hn::Add(sum, a);
    sum2 = hn::Add(sum2, b);
    square = hn::MulAdd(a, a, square);
    square2 = hn::MulAdd(b, b, square2);
  }
  if (row < rows) {
    const auto a = hn::Sub(load(row), pivot);
    sum = hn::Add(sum, a);
    square = hn::MulAdd(a, a, square);
  }
  sum = hn::Add(sum, sum2);
  const auto offset = hn::Mul(sum, hn::Set(d, 1.0f / static_cast<float>(rows)));
  hn::StoreU(hn::Add(pivot, offset), d, &mean[c]);
  const auto total = hn::NegMulAdd(sum, offset, hn::Add(square, square2));
  hn::StoreU(hn::IfThenZeroElse(hn::Lt(total, hn::Zero(d)), total), d, &squares[c]);
}

void ChannelMomentsNear(std::span<const float> x, std::span<float> mean, std::span<float> squares) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full);
  std::size_t c = 0;
  for (; c + lanes <= mean.size(); c += lanes) moments_of_columns(full, x, c, mean, squares);
  for (; c < mean.size(); ++c) moments_of_columns(single, x, c, mean, squares);
}

/// A ChannelMap spread over a wide row.
class WideMap {
 public:
  WideMap(const WideRow& wide, const ChannelMap& map)
      : mean_(wide.spread(map.mean, memory_[0])),
        scale_(wide.spread(map.scale, memory_[1])),
        shift_(wide.spread(map.shift, memory_[2])) {}

  template <class D>
  HWY_INLINE hn::Vec<D> centre(D d, hn::Vec<D> x, std::size_t column) const {
    return hn::Sub(x, hn::LoadU(d, mean_ + column));
  }
  template <class D>
  HWY_INLINE hn::Vec<D> scale(D d, std::size_t column) const {
    return hn::LoadU(d, scale_ + column);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> normalize(D d, hn::Vec<D> centred, std::size_t column) const {
    return hn::MulAdd(centred, scale(d, column), hn::LoadU(d, shift_ + column));
  }

 private:
  std::array<WideMemory, 3> memory_;
  const float* mean_;
  const float* scale_;
  const float* shift_;
};

/// g where `output` is above zero or NaN, else 0.
template <class D>
HWY_INLINE hn::Vec<D> gate_by(D d, hn::Vec<D> output, hn::Vec<D> g) {
  return hn::IfThenZeroElse(hn::Le(output, hn::Zero(d)), g);
}

template <bool kResidual, bool kRelu>
void NormalizeRowsOf(std::span<const float> x, std::span<const float> residual,
                     const ChannelMap& channel_map, std::span<float> y) {
  const WideRow wide(channel_map.mean.size());
  const WideMap map(wide, channel_map);
  for_each_vector(x.size(), wide.width(), [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    auto v = map.normalize(d, map.centre(d, hn::LoadU(d, &x[i]), c), c);
    if constexpr (kResidual) v = hn::Add(v, hn::LoadU(d, &residual[i]));
    if constexpr (kRelu) v = gate_by(d, v, v);
    hn::StoreU(v, d, &y[i]);
  });
}

void NormalizeRows(std::span<const float> x, std::span<const float> residual, const ChannelMap& map,
                   bool relu, std::span<float> y) {
  if (residual.empty()) {
    relu ? NormalizeRowsOf<false, true>(x, residual, map, y)
         : NormalizeRowsOf<false, false>(x, residual, map, y);
  } else {
    relu ? NormalizeRowsOf<true, true>(x, residual, map, y)
         : NormalizeRowsOf<true, false>(x, residual, map, y);
  }
}

template <Gate kGate>
void GradientSumsOf(std::span<const float> g, std::span<const float> x, std::span<const float> y,
                    const ChannelMap& channel_map, std::span<float> sums, std::span<float> products,
                    std::span<float> gated) {
  const WideRow wide(channel_map.mean.size());
  const WideMap map(wide, channel_map);
  WideMemory sum_memory, product_memory;
  float* const sum_columns = wide.start(sums, sum_memory);
  float* const product_columns = wide.start(products, product_memory);
  for_each_vector(x.size(), wide.width(), [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    auto v = hn::LoadU(d, &g[i]);
    const auto t = map.centre(d, hn::LoadU(d, &x[i]), c);
    if constexpr (kGate == Gate::by_input) v = gate_by(d, map.normalize(d, t, c), v);
    if constexpr (kGate == Gate::by_output) {
      v = gate_by(d, hn::LoadU(d, &y[i]), v);
      hn::StoreU(v, d, &gated[i]);
    }
    add_to(d, sum_columns + c, v);
    hn::StoreU(hn::MulAdd(v, t, hn::LoadU(d, product_columns + c)), d, product_columns + c);
  });
  wide.finish(sum_columns, sums);
  wide.finish(product_columns, products);
}

void GradientSums(std::span<const float> g, std::span<const float> x, std::span<const float> y,
                  const ChannelMap& map, Gate gate, std::span<float> sums,
                  std::span<float> products, std::span<float> gated) {
  switch (gate) {
    case Gate::open:
      return GradientSumsOf<Gate::open>(g, x, y, map, sums, products, gated);
    case Gate::by_input:
      return GradientSumsOf<Gate::by_input>(g, x, y, map, sums, products, gated);
    case Gate::by_output:
      return GradientSumsOf<Gate::by_output>(g, x, y, map, sums, products, gated);
  }
}

template <bool kGateByInput>
void InputGradientOf(std::span<const float> g, std::span<const float> x,
                     const ChannelMap& channel_map, std::span<const float> offset,
                     std::span<const float> slope, std::span<float> dx) {
  const WideRow wide(channel_map.mean.size());
  const WideMap map(wide, channel_map);
  WideMemory offset_memory, slope_memory;
  const float* const offsets = wide.spread(offset, offset_memory);
  const float* const slopes = wide.spread(slope, slope_memory);
  for_each_vector(x.size(), wide.width(), [&](auto d, std::size_t i, std::size_t c) HWY_ATTR {
    auto v = hn::LoadU(d, &g[i]);
    const auto t = map.centre(d, hn::LoadU(d, &x[i]), c);
    if constexpr (kGateByInput) v = gate_by(d, map.normalize(d, t, c), v);
    v = hn::MulSub(v, map.scale(d, c), hn::LoadU(d, offsets + c));
    hn::StoreU(hn::NegMulAdd(t, hn::LoadU(d, slopes + c), v), d, &dx[i]);
  });
}

void InputGradient(std::span<const float> g, std::span<const float> x, const ChannelMap& map,
                   Gate gate, std::span<const float> offset, std::span<const float> slope,
                   std::span<float> dx) {
  gate == Gate::by_input ? InputGradientOf<true>(g, x, map, offset, slope, dx)
                         : InputGradientOf<false>(g, x, map, offset, slope, dx);
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model {

HWY_EXPORT(ChannelMoments);
HWY_EXPORT(ChannelMomentsNear);
HWY_EXPORT(NormalizeRows);
HWY_EXPORT(GradientSums);
HWY_EXPORT(InputGradient);

void channel_moments(std::span<const float> x, std::span<float> mean, std::span<float> squares) {
  EQT_DCHECK(!x.empty() && x.size() % mean.size() == 0, "{} values in {} channels", x.size(),
             mean.size());
  HWY_DYNAMIC_DISPATCH(ChannelMoments)(x, mean, squares);
}

void channel_moments_near(std::span<const float> x, std::span<float> mean,
                          std::span<float> squares) {
  EQT_DCHECK(!x.empty() && x.size() % mean.size() == 0, "{} values in {} channels", x.size(),
             mean.size());
  HWY_DYNAMIC_DISPATCH(ChannelMomentsNear)(x, mean, squares);
}

void normalize_rows(std::span<const float> x, std::span<const float> residual,
                    const ChannelMap& map, bool relu, std::span<float> y) {
  EQT_DCHECK(y.size() == x.size() && (residual.empty() || residual.size() == x.size()),
             "x {}, residual {}, y {} values", x.size(), residual.size(), y.size());
  HWY_DYNAMIC_DISPATCH(NormalizeRows)(x, residual, map, relu, y);
}

void gradient_sums(std::span<const float> g, std::span<const float> x, std::span<const float> y,
                   const ChannelMap& map, Gate gate, std::span<float> sums,
                   std::span<float> products, std::span<float> gated) {
  EQT_DCHECK(g.size() == x.size(), "g {}, x {} values", g.size(), x.size());
  EQT_DCHECK(gate != Gate::by_output || (y.size() == x.size() && gated.size() == x.size()),
             "x {}, y {}, gated {} values", x.size(), y.size(), gated.size());
  HWY_DYNAMIC_DISPATCH(GradientSums)(g, x, y, map, gate, sums, products, gated);
}

void input_gradient(std::span<const float> g, std::span<const float> x, const ChannelMap& map,
                    Gate gate, std::span<const float> offset, std::span<const float> slope,
                    std::span<float> dx) {
  EQT_DCHECK(g.size() == x.size() && dx.size() == x.size(), "g {}, x {}, dx {} values", g.size(),
             x.size(), dx.size());
  HWY_DYNAMIC_DISPATCH(InputGradient)(g, x, map, gate, offset, slope, dx);
}

}  // namespace eqt::model
#endif
