// SPDX-License-Identifier: Apache-2.0
#include "codec/low_rank/atom_sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/low_rank/atom_sampling.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "core/random_words-inl.hpp"

#ifndef EQT_ATOM_SAMPLING_TYPES
#define EQT_ATOM_SAMPLING_TYPES
namespace eqt::codec {
/// Magnitudes below a threshold: their sum; and how many reach it.
struct Split {
  double below = 0;
  double reached = 0;
};
/// The parameters that all values of a run share; see draw_values.
struct Draw {
  float lift;       // power of two that keeps products from being subnormal
  float threshold;  // lifted
  float unit;       // lifted threshold / 2^24
  const RandomStream& stream;
};
}  // namespace eqt::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using eqt::HWY_NAMESPACE::complement_if_negative;
using eqt::HWY_NAMESPACE::kRandomIndexFactor;
using eqt::HWY_NAMESPACE::random_products;
using eqt::HWY_NAMESPACE::random_words;
using eqt::HWY_NAMESPACE::stratified_words;

constexpr std::size_t kSums = 16;

Split SplitAt(const float* values, std::size_t count, float threshold) {
  const hn::CappedTag<double, kSums> d;
  const hn::Rebind<float, decltype(d)> d_half;
  constexpr std::size_t kStep = hn::MaxLanes(d);
  constexpr std::size_t kVectors = kSums / kStep;
  using V = hn::Vec<decltype(d)>;
  const auto limit = hn::Set(d, static_cast<double>(threshold));
  const auto one = hn::Set(d, 1.0);
  V below[kVectors], reached[kVectors];
  for (auto& sum : below) sum = hn::Zero(d);
  for (auto& sum : reached) sum = hn::Zero(d);
  const auto add_sixteen = [&](const float* from) HWY_ATTR {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const auto magnitude = hn::Abs(hn::PromoteTo(d, hn::LoadU(d_half, from + k * kStep)));
      const auto reaches = hn::Ge(magnitude, limit);
      below[k] = hn::Add(below[k], hn::IfThenZeroElse(reaches, magnitude));
      reached[k] = hn::Add(reached[k], hn::IfThenElseZero(reaches, one));
    }
  };
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) add_sixteen(values + i);
  if (i < count) {
    float last[kSums] = {};
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    add_sixteen(last);
  }
  double lanes[2][kSums];
  for (std::size_t k = 0; k < kVectors; ++k) {
    hn::StoreU(below[k], d, lanes[0] + k * kStep);
    hn::StoreU(reached[k], d, lanes[1] + k * kStep);
  }
  for (auto& sums : lanes) {
    for (std::size_t width = kSums / 2; width > 0; width /= 2) {
      for (std::size_t k = 0; k < width; ++k) sums[k] += sums[k + width];
    }
  }
  return {lanes[0][0], lanes[1][0]};
}

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::Rebind<std::uint32_t, F32>;
constexpr std::size_t kLanes = hn::MaxLanes(F32());

// One bit per kept value. `bases`: the values' strata; null if the stream has none.
HWY_INLINE std::uint32_t KeptBits(const float* values, hn::Vec<U32> scaled,
                                  const std::uint32_t* bases, const Draw& draw) {
  const F32 d;
  const U32 du;
  const hn::RebindToSigned<F32> di;
  const auto v = hn::LoadU(d, values);
  const auto magnitude = hn::Mul(hn::Abs(v), hn::Set(d, draw.lift));
  auto word = hn::Zero(du);
  if (bases == nullptr) {
    word = random_words(du, scaled, draw.stream.second());
  } else {
    const auto products =
        random_products(du, scaled, draw.stream.second(), draw.stream.multiplier());
    word = stratified_words(du, products, hn::LoadU(du, bases), draw.stream.strata()->factor());
    word = complement_if_negative(du, word, v);
  }
  const auto u = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(word)));
  const auto kept = hn::Or(hn::Ge(magnitude, hn::Set(d, draw.threshold)),
                           hn::Lt(hn::Mul(u, hn::Set(d, draw.unit)), magnitude));
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, kept, bytes);
  return static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8;
}

std::size_t DrawValues(const float* values, std::size_t count, std::uint32_t first_counter,
                       std::uint32_t first_index, const Draw& draw, std::uint32_t* indices) {
  const U32 du;
  auto scaled = hn::Add(hn::Mul(hn::Iota(du, first_counter), hn::Set(du, kRandomIndexFactor)),
                        hn::Set(du, draw.stream.first()));
  const auto advance = hn::Set(du, kRandomIndexFactor * static_cast<std::uint32_t>(kLanes));
  std::size_t kept = 0;
  const auto append = [&](std::size_t at, std::uint32_t bits) {
    for (; bits != 0; bits &= bits - 1) {
      const auto lane = static_cast<std::uint32_t>(__builtin_ctz(bits));
      indices[kept++] = first_index + static_cast<std::uint32_t>(at) + lane;
    }
  };
  constexpr std::size_t kStrata = 1024;  // looked up together
  std::uint32_t strata[kStrata] = {};
  const auto bases_at = [&](std::size_t i) -> const std::uint32_t* {
    if (draw.stream.strata() == nullptr) return nullptr;
    if (i % kStrata == 0)
      draw.stream.copy_strata(first_counter + static_cast<std::uint32_t>(i),
                              {strata, std::min(kStrata, count - i)});
    return strata + i % kStrata;
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes, scaled = hn::Add(scaled, advance)) {
    append(i, KeptBits(values + i, scaled, bases_at(i), draw));
  }
  if (i < count) {
    float last[kLanes] = {};  // a zero is never kept
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    append(i, KeptBits(last, scaled, bases_at(i), draw));
  }
  return kept;
}

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(SplitAt);
HWY_EXPORT(DrawValues);

/// Finds t by iteration: atoms that reach sum / budget are removed, with one unit of budget each.
/// That only lowers the quotient for the others. Each round except the last removes at least one
/// atom.
/// @param split the atoms below a threshold, and those that reach it
template <typename SplitFunction>
double fill(double sum, double budget, SplitFunction&& split) {
  double threshold = sum / budget;
  for (double reached = 0;;) {
    const Split parts = split(threshold);
    if (parts.reached <= reached || parts.reached >= budget || parts.below <= 0) return threshold;
    reached = parts.reached;
    threshold = parts.below / (budget - reached);
  }
}

}  // namespace

void keep_probabilities(std::span<const double> lambda, double budget, std::span<double> p) {
  EQT_CHECK(budget > 0 && p.size() == lambda.size(), "{} probabilities for {} atoms", p.size(),
            lambda.size());
  double sum = 0;
  for (const double l : lambda) sum += std::abs(l);
  const double threshold = fill(sum, budget, [&](double limit) {
    Split parts;
    for (const double l : lambda) {
      if (std::abs(l) >= limit) {
        parts.reached += 1;
      } else {
        parts.below += std::abs(l);
      }
    }
    return parts;
  });
  for (std::size_t i = 0; i < lambda.size(); ++i) {
    const double l = std::abs(lambda[i]);
    p[i] = l == 0 ? 0 : l >= threshold ? 1 : l / threshold;
  }
}

float keep_threshold(std::span<const float> values, double budget) {
  EQT_CHECK(budget > 0, "a budget of {} atoms", budget);
  // Above every finite magnitude, so that all are added; only infinity reaches it.
  const auto split = [&](float limit) {
    return HWY_DYNAMIC_DISPATCH(SplitAt)(values.data(), values.size(), limit);
  };
  const Split all = split(std::numeric_limits<float>::infinity());
  if (all.reached > 0 || !std::isfinite(all.below)) return std::nanf("");
  if (all.below == 0) return 0;
  const auto rounded = [](double t) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
    return std::max(static_cast<float>(std::min(t, kLargest)), kSmallest);
  };
  return rounded(fill(all.below, budget, [&](double t) { return split(rounded(t)); }));
}

std::size_t draw_values(std::span<const float> values, float threshold, const RandomKey& key,
                        const Strata* strata, std::uint64_t first_index,
                        std::span<std::uint32_t> indices) {
  EQT_CHECK(threshold > 0 && indices.size() >= values.size(),
            "a threshold of {}, room for {} of {}", threshold, indices.size(), values.size());
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 32;
  const float lift = threshold < 0x1p-60f ? 0x1p64f : 1.0f;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < values.size();) {
    const std::uint64_t counter = first_index + i;
    const RandomStream stream(key, static_cast<std::uint32_t>(counter / kBlock), strata);
    const Draw draw{lift, threshold * lift, threshold * lift * 0x1p-24f, stream};
    const auto n = static_cast<std::size_t>(
        std::min<std::uint64_t>(values.size() - i, kBlock - counter % kBlock));
    kept += HWY_DYNAMIC_DISPATCH(DrawValues)(
        values.data() + i, n, static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(i),
        draw, indices.data() + kept);
    i += n;
  }
  return kept;
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
