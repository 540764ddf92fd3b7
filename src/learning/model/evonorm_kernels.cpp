// SPDX-License-Identifier: Apache-2.0
#include "model/evonorm_kernels.hpp"

#include <algorithm>
#include <type_traits>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/evonorm_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kTile = 2048;  // [floats] the tiles of three tensors fit into a first-level
                                     // cache
constexpr std::size_t kMinTileRows = 8;

/// Calls body(tag, c, begin, end) for each column of vectors of each tile: the vectors at begin +
/// c, begin + channels + c and so on, below end.
template <class Body>
HWY_INLINE void for_each_column(std::size_t count, std::size_t channels, const Body& body) {
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const std::size_t lanes = hn::Lanes(full);
  const std::size_t tile = std::max(kMinTileRows, kTile / channels) * channels;
  for (std::size_t begin = 0; begin < count; begin += tile) {
    const std::size_t end = std::min(begin + tile, count);
    std::size_t c = 0;
    for (; c + lanes <= channels; c += lanes) body(full, c, begin, end);
    for (; c < channels; ++c) body(single, c, begin, end);
  }
}

template <class D>
HWY_INLINE void add_to(D d, float* sums, hn::Vec<D> v) {
  hn::StoreU(hn::Add(hn::LoadU(d, sums), v), d, sums);
}

/// exp(-z0) and exp(-z1), with z clamped to |z| <= 80. Two at a time, because the operations of one
/// form a chain in which each waits for the one before.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void exp_of_negative(D d, V& z0, V& z1) {
  const hn::RebindToSigned<D> di;
  const auto lower = hn::Set(d, -80.0f), upper = hn::Set(d, 80.0f);
  z0 = hn::Max(lower, hn::Min(upper, z0));
  z1 = hn::Max(lower, hn::Min(upper, z1));
  // -z / ln 2 = k + f: adding a constant of 24 bits rounds to k, which is then in the last bits of
  // the sum.
  const auto log2_e = hn::Set(d, 1.44269504f), round = hn::Set(d, 12582912.0f);  // 1.5 * 2^23
  const auto sum0 = hn::NegMulAdd(z0, log2_e, round), sum1 = hn::NegMulAdd(z1, log2_e, round);
  const auto f0 = hn::NegMulAdd(z0, log2_e, hn::Sub(round, sum0));
  const auto f1 = hn::NegMulAdd(z1, log2_e, hn::Sub(round, sum1));
  // 2^f for |f| <= 1/2: minimax, relative error 1.1e-7.
  auto p0 = hn::Set(d, 1.326472848e-03f), p1 = p0;
  const auto times = [&](float coefficient) HWY_ATTR {
    const auto c = hn::Set(d, coefficient);
    p0 = hn::MulAdd(p0, f0, c);
    p1 = hn::MulAdd(p1, f1, c);
  };
  times(9.671512991e-03f);
  times(5.550733581e-02f);
  times(2.402224243e-01f);
  times(6.931470037e-01f);
  times(1.0f);
  const auto power0 = hn::ShiftLeft<23>(hn::BitCast(di, sum0));
  const auto power1 = hn::ShiftLeft<23>(hn::BitCast(di, sum1));
  z0 = hn::BitCast(d, hn::Add(hn::BitCast(di, p0), power0));
  z1 = hn::BitCast(d, hn::Add(hn::BitCast(di, p1), power1));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V hard_sigmoid(D d, V z) {
  const auto one = hn::Set(d, 1.0f);
  V h = hn::MulAdd(z, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
  h = hn::IfThenZeroElse(hn::Lt(h, hn::Zero(d)), h);
  return hn::IfThenElse(hn::Gt(h, one), one, h);
}

/// The sigmoids of z0 and z1 and their derivatives.
template <Sigmoid kSigmoid, class D, class V = hn::Vec<D>>
HWY_INLINE void gate_of(D d, V z0, V z1, V& h0, V& h1, V& slope0, V& slope1) {
  if constexpr (kSigmoid == Sigmoid::exact) {
    const auto one = hn::Set(d, 1.0f);
    exp_of_negative(d, z0, z1);
    h0 = hn::Div(one, hn::Add(one, z0));
    h1 = hn::Div(one, hn::Add(one, z1));
    slope0 = hn::Mul(hn::Mul(h0, h0), z0);  // h * (1 - h) without cancellation
    slope1 = hn::Mul(hn::Mul(h1, h1), z1);
  } else {
    const auto sixth = hn::Set(d, 1.0f / 6), three = hn::Set(d, 3.0f);
    h0 = hard_sigmoid(d, z0);
    h1 = hard_sigmoid(d, z1);
    slope0 = hn::IfThenElseZero(hn::Lt(hn::Abs(z0), three), sixth);
    slope1 = hn::IfThenElseZero(hn::Lt(hn::Abs(z1), three), sixth);
  }
}

/// Calls body(i, j, only_i) for pairs of rows from `begin` on; a last single row has only_i true.
template <class Body>
HWY_INLINE void for_each_pair(std::size_t begin, std::size_t end, std::size_t step,
                              const Body& body) {
  std::size_t i = begin;
  for (; i + step < end; i += 2 * step) body(i, i + step, std::false_type());
  if (i < end) body(i, i, std::true_type());
}

template <Sigmoid kSigmoid, bool kResidual>
void GateRowsOf(std::span<const float> x, std::span<const float> residual, const GatedMap& map,
                std::span<float> y) {
  const std::size_t channels = map.v.size();
  for_each_column(
      x.size(), channels, [&](auto d, std::size_t c, std::size_t begin, std::size_t end) HWY_ATTR {
        const auto v = hn::LoadU(d, &map.v[c]), scale = hn::LoadU(d, &map.scale[c]);
        const auto shift = hn::LoadU(d, &map.shift[c]);
        const auto store = [&](auto in, auto h, std::size_t i) HWY_ATTR {
          auto out = hn::MulAdd(hn::Mul(in, h), scale, shift);
          if constexpr (kResidual) out = hn::Add(out, hn::LoadU(d, &residual[i]));
          hn::StoreU(out, d, &y[i]);
        };
        for_each_pair(begin + c, end, channels, [&](std::size_t i, std::size_t j, auto) HWY_ATTR {
          const auto x0 = hn::LoadU(d, &x[i]), x1 = hn::LoadU(d, &x[j]);
          auto h0 = x0, h1 = x1, slope0 = x0, slope1 = x1;
          gate_of<kSigmoid>(d, hn::Mul(v, x0), hn::Mul(v, x1), h0, h1, slope0, slope1);
          store(x0, h0, i);
          store(x1, h1, j);
        });
      });
}

void GateRows(Sigmoid sigmoid, std::span<const float> x, std::span<const float> residual,
              const GatedMap& map, std::span<float> y) {
  if (sigmoid == Sigmoid::exact) {
    residual.empty() ? GateRowsOf<Sigmoid::exact, false>(x, residual, map, y)
                     : GateRowsOf<Sigmoid::exact, true>(x, residual, map, y);
  } else {
    residual.empty() ? GateRowsOf<Sigmoid::hard, false>(x, residual, map, y)
                     : GateRowsOf<Sigmoid::hard, true>(x, residual, map, y);
  }
}

template <Sigmoid kSigmoid>
void GateGradientOf(std::span<const float> g, std::span<const float> x, const GatedMap& map,
                    const GatedSums& total, std::span<float> dx) {
  const std::size_t channels = map.v.size();
  for (const auto& sums : {total.sums, total.products, total.slopes}) std::ranges::fill(sums, 0.0f);
  for_each_column(
      x.size(), channels, [&](auto d, std::size_t c, std::size_t begin, std::size_t end) HWY_ATTR {
        const auto v = hn::LoadU(d, &map.v[c]), scale = hn::LoadU(d, &map.scale[c]);
        auto sums = hn::Zero(d), products = hn::Zero(d), slopes = hn::Zero(d);
        const auto add = [&](auto in, auto z, auto h, auto slope, std::size_t i) HWY_ATTR {
          const auto grad = hn::LoadU(d, &g[i]), product = hn::Mul(grad, in);
          sums = hn::Add(sums, grad);
          products = hn::MulAdd(product, h, products);
          slopes = hn::MulAdd(product, hn::Mul(in, slope), slopes);
          hn::StoreU(hn::Mul(hn::Mul(grad, scale), hn::MulAdd(z, slope, h)), d, &dx[i]);
        };
        for_each_pair(begin + c, end, channels,
                      [&](std::size_t i, std::size_t j, auto only_i) HWY_ATTR {
                        const auto x0 = hn::LoadU(d, &x[i]), x1 = hn::LoadU(d, &x[j]);
                        const auto z0 = hn::Mul(v, x0), z1 = hn::Mul(v, x1);
                        auto h0 = x0, h1 = x1, slope0 = x0, slope1 = x1;
                        gate_of<kSigmoid>(d, z0, z1, h0, h1, slope0, slope1);
                        add(x0, z0, h0, slope0, i);
                        if constexpr (!only_i) add(x1, z1, h1, slope1, j);
                      });
        add_to(d, &total.sums[c], sums);
        add_to(d, &total.products[c], products);
        add_to(d, &total.slopes[c], slopes);
      });
}

void GateGradient(Sigmoid sigmoid, std::span<const float> g, std::span<const float> x,
                  const GatedMap& map, const GatedSums& sums, std::span<float> dx) {
  sigmoid == Sigmoid::exact ? GateGradientOf<Sigmoid::exact>(g, x, map, sums, dx)
                            : GateGradientOf<Sigmoid::hard>(g, x, map, sums, dx);
}

void SubtractRegression(std::span<const float> x, std::span<const float> means,
                        std::span<const float> slopes, std::span<float> dx) {
  const std::size_t channels = means.size();
  for_each_column(x.size(), channels,
                  [&](auto d, std::size_t c, std::size_t begin, std::size_t end) HWY_ATTR {
                    const auto mean = hn::LoadU(d, &means[c]), slope = hn::LoadU(d, &slopes[c]);
                    for (std::size_t i = begin + c; i < end; i += channels) {
                      const auto t = hn::Sub(hn::LoadU(d, &x[i]), mean);
                      hn::StoreU(hn::NegMulAdd(t, slope, hn::LoadU(d, &dx[i])), d, &dx[i]);
                    }
                  });
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model {

HWY_EXPORT(GateRows);
HWY_EXPORT(GateGradient);
HWY_EXPORT(SubtractRegression);

void gate_rows(Sigmoid sigmoid, std::span<const float> x, std::span<const float> residual,
               const GatedMap& map, std::span<float> y) {
  EQT_DCHECK(y.size() == x.size() && (residual.empty() || residual.size() == x.size()),
             "x {}, residual {}, y {} values", x.size(), residual.size(), y.size());
  HWY_DYNAMIC_DISPATCH(GateRows)(sigmoid, x, residual, map, y);
}

void gate_gradient(Sigmoid sigmoid, std::span<const float> g, std::span<const float> x,
                   const GatedMap& map, const GatedSums& sums, std::span<float> dx) {
  EQT_DCHECK(g.size() == x.size() && dx.size() == x.size(), "g {}, x {}, dx {} values", g.size(),
             x.size(), dx.size());
  HWY_DYNAMIC_DISPATCH(GateGradient)(sigmoid, g, x, map, sums, dx);
}

void subtract_regression(std::span<const float> x, std::span<const float> mean,
                         std::span<const float> slope, std::span<float> dx) {
  EQT_DCHECK(dx.size() == x.size(), "x {}, dx {} values", x.size(), dx.size());
  HWY_DYNAMIC_DISPATCH(SubtractRegression)(x, mean, slope, dx);
}

}  // namespace eqt::model
#endif
