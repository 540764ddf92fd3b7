// SPDX-License-Identifier: Apache-2.0
#include "model/gelu_kernels.hpp"

#include <cstddef>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/gelu_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "model/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::model::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The normal distribution function of x, and its density.
template <class V>
struct Normal {
  V below, density;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE Normal<V> normal_of(D d, V x) {
  const auto power = hn::Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  // erfc(z) = power * polynomial of t, where z = |x| / sqrt(2); half of it lies beyond |x|.
  constexpr float kSlope = 0.3275911f * 0.70710678f;
  const auto one = hn::Set(d, 1.0f);
  const auto t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, kSlope), one));
  auto sum = hn::Set(d, 0.5f * 1.061405429f);
  sum = hn::MulAdd(sum, t, hn::Set(d, 0.5f * -1.453152027f));
  sum = hn::MulAdd(sum, t, hn::Set(d, 0.5f * 1.421413741f));
  sum = hn::MulAdd(sum, t, hn::Set(d, 0.5f * -0.284496736f));
  sum = hn::MulAdd(sum, t, hn::Set(d, 0.5f * 0.254829592f));
  const auto beyond = hn::Mul(hn::Mul(sum, t), power);
  const auto is_negative = hn::Lt(x, hn::Zero(d));
  return {hn::IfThenElse(is_negative, beyond, hn::Sub(one, beyond)),
          hn::Mul(power, hn::Set(d, 0.39894228f))};
}

void Gelu(std::span<const float> x, std::span<float> y) {
  for_each_vector(x.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const auto in = hn::LoadU(d, &x[i]);
    hn::StoreU(hn::Mul(in, normal_of(d, in).below), d, &y[i]);
  });
}

void GeluGradient(std::span<const float> g, std::span<const float> x, std::span<float> dx) {
  for_each_vector(x.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const auto in = hn::LoadU(d, &x[i]);
    const auto normal = normal_of(d, in);
    const auto slope = hn::MulAdd(in, normal.density, normal.below);
    hn::StoreU(hn::Mul(hn::LoadU(d, &g[i]), slope), d, &dx[i]);
  });
}

}  // namespace eqt::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::model {

HWY_EXPORT(Gelu);
HWY_EXPORT(GeluGradient);

void gelu(std::span<const float> x, std::span<float> y) {
  EQT_DCHECK(y.size() == x.size(), "{} values into {}", x.size(), y.size());
  HWY_DYNAMIC_DISPATCH(Gelu)(x, y);
}

void gelu_gradient(std::span<const float> g, std::span<const float> x, std::span<float> dx) {
  EQT_DCHECK(g.size() == x.size() && dx.size() == x.size(), "{} and {} values for {}", g.size(),
             dx.size(), x.size());
  HWY_DYNAMIC_DISPATCH(GeluGradient)(g, x, dx);
}

}  // namespace eqt::model
#endif
