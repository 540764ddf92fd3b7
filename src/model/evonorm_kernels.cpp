#include "model/evonorm_kernels.hpp"

#include <algorithm>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/evonorm_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kTile = 2048;  // [floats] three tensors' tiles fit a first-level cache
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

/// exp(-z) for |z| <= 80, which outer values are taken for.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of_negative(D d, V z) {
  const hn::RebindToSigned<D> di;
  z = hn::Max(hn::Set(d, -80.0f), hn::Min(hn::Set(d, 80.0f), z));
  // -z / ln 2 = k + f: a constant of 24 bits rounds to k, and leaves it in the last bits of the
  // sum.
  const auto log2_e = hn::Set(d, 1.44269504f), round = hn::Set(d, 12582912.0f);  // 1.5 * 2^23
  const auto sum = hn::NegMulAdd(z, log2_e, round);
  const auto f = hn::NegMulAdd(z, log2_e, hn::Sub(round, sum));
  // 2^f for |f| <= 1/2: minimax, relative error 1.1e-7.
  auto p = hn::Set(d, 1.326472848e-03f);
  p = hn::MulAdd(p, f, hn::Set(d, 9.671512991e-03f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550733581e-02f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.402224243e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931470037e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, sum))));
}

/// A sigmoid and its derivative.
template <class V>
struct Gated {
  V h, slope;
};

template <Sigmoid kSigmoid, class D, class V = hn::Vec<D>>
HWY_INLINE Gated<V> gate_of(D d, V z) {
  const auto one = hn::Set(d, 1.0f);
  if constexpr (kSigmoid == Sigmoid::exact) {
    const V e = exp_of_negative(d, z);
    const V h = hn::Div(one, hn::Add(one, e));
    return {h, hn::Mul(hn::Mul(h, h), e)};  // h * (1 - h) without cancellation
  } else {
    const auto sixth = hn::Set(d, 1.0f / 6);
    V h = hn::MulAdd(z, sixth, hn::Set(d, 0.5f));
    h = hn::IfThenZeroElse(hn::Lt(h, hn::Zero(d)), h);
    h = hn::IfThenElse(hn::Gt(h, one), one, h);
    return {h, hn::IfThenElseZero(hn::Lt(hn::Abs(z), hn::Set(d, 3.0f)), sixth)};
  }
}

template <Sigmoid kSigmoid, bool kResidual>
void GateRowsOf(std::span<const float> x, std::span<const float> residual, const GatedMap& map,
                std::span<float> y) {
  const std::size_t channels = map.v.size();
  for_each_column(x.size(), channels,
                  [&](auto d, std::size_t c, std::size_t begin, std::size_t end) HWY_ATTR {
                    const auto v = hn::LoadU(d, &map.v[c]);
                    const auto scale = hn::LoadU(d, &map.scale[c]);
                    const auto shift = hn::LoadU(d, &map.shift[c]);
                    for (std::size_t i = begin + c; i < end; i += channels) {
                      const auto in = hn::LoadU(d, &x[i]);
                      const auto u = hn::Mul(in, gate_of<kSigmoid>(d, hn::Mul(v, in)).h);
                      auto out = hn::MulAdd(u, scale, shift);
                      if constexpr (kResidual) out = hn::Add(out, hn::LoadU(d, &residual[i]));
                      hn::StoreU(out, d, &y[i]);
                    }
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
  for_each_column(x.size(), channels,
                  [&](auto d, std::size_t c, std::size_t begin, std::size_t end) HWY_ATTR {
                    const auto v = hn::LoadU(d, &map.v[c]), scale = hn::LoadU(d, &map.scale[c]);
                    auto sums = hn::Zero(d), products = hn::Zero(d), slopes = hn::Zero(d);
                    for (std::size_t i = begin + c; i < end; i += channels) {
                      const auto in = hn::LoadU(d, &x[i]), grad = hn::LoadU(d, &g[i]);
                      const auto z = hn::Mul(v, in);
                      const auto gate = gate_of<kSigmoid>(d, z);
                      const auto product = hn::Mul(grad, in);
                      sums = hn::Add(sums, grad);
                      products = hn::MulAdd(product, gate.h, products);
                      slopes = hn::MulAdd(product, hn::Mul(in, gate.slope), slopes);
                      const auto slope = hn::MulAdd(z, gate.slope, gate.h);
                      hn::StoreU(hn::Mul(hn::Mul(grad, scale), slope), d, &dx[i]);
                    }
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
