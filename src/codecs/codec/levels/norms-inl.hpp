// SPDX-License-Identifier: Apache-2.0
// Norms of a bucket. Included once per vector target, inside the files that Highway compiles for
// each.

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/prefetch.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_NORMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_NORMS_INL_HPP
#undef EQT_CODEC_NORMS_INL_HPP
#else
#define EQT_CODEC_NORMS_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The sum of squares of a bucket, which is given in parts: kSquareSums partial sums, value i added
/// to sum i mod kSquareSums.
class SquareSums {
 public:
  /// The next values. @pre count is a multiple of kSquareSums unless these are the last
  HWY_INLINE void Add(const float* values, std::size_t count) {
    const hn::ScalableTag<double> d;
    hn::Vec<decltype(d)> sums[kVectors];
    for (std::size_t k = 0; k < kVectors; ++k) sums[k] = hn::Load(d, lanes_ + k * kStep);
    std::size_t i = 0;
    for (; i + kSquareSums <= count; i += kSquareSums) AddRound(values + i, sums);
    if (i < count) {
      float last[kSquareSums] = {};
      std::memcpy(last, values + i, (count - i) * sizeof(float));
      AddRound(last, sums);
    }
    for (std::size_t k = 0; k < kVectors; ++k) hn::Store(sums[k], d, lanes_ + k * kStep);
  }

  HWY_INLINE double Total() const {
    const hn::ScalableTag<double> d;
    hn::Vec<decltype(d)> sums[kVectors];
    for (std::size_t k = 0; k < kVectors; ++k) sums[k] = hn::Load(d, lanes_ + k * kStep);
    for (std::size_t half = kVectors / 2; half > 0; half /= 2) {
      for (std::size_t k = 0; k < half; ++k) sums[k] = hn::Add(sums[k], sums[k + half]);
    }
    alignas(64) double lanes[kStep];
    hn::Store(sums[0], d, lanes);
    for (std::size_t half = kStep / 2; half > 0; half /= 2) {
      for (std::size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    }
    return lanes[0];
  }

 private:
  static constexpr std::size_t kStep = hn::MaxLanes(hn::ScalableTag<double>());
  static constexpr std::size_t kVectors = kSquareSums / kStep;

  // The square of a float is exact in fp64, so it may be fused with the sum.
  template <typename V>
  static HWY_INLINE void AddRound(const float* from, V* sums) {
    const hn::ScalableTag<double> d;
    const hn::Rebind<float, decltype(d)> d_half;
    for (std::size_t k = 0; k < kVectors; ++k) {
      const auto v = hn::PromoteTo(d, hn::LoadU(d_half, from + k * kStep));
      sums[k] = hn::MulAdd(v, v, sums[k]);
    }
  }

  alignas(64) double lanes_[kSquareSums] = {};
};

HWY_INLINE double SumOfSquares(const float* values, std::size_t count) {
  SquareSums sums;
  sums.Add(values, count);
  return sums.Total();
}

/// The bits of the largest magnitude of a bucket, which is given in parts. Magnitudes have the
/// order of their bits, and NaN is above infinity.
class LargestBits {
 public:
  /// The next values. @pre count is a multiple of kSquareSums unless these are the last
  HWY_INLINE void Add(const float* values, std::size_t count) {
    const hn::ScalableTag<std::int32_t> d;
    hn::Vec<decltype(d)> largest[kVectors];
    for (std::size_t k = 0; k < kVectors; ++k) largest[k] = hn::Load(d, lanes_ + k * kStep);
    std::size_t i = 0;
    for (; i + kSquareSums <= count; i += kSquareSums) AddRound(values + i, largest);
    if (i < count) {
      float last[kSquareSums] = {};
      std::memcpy(last, values + i, (count - i) * sizeof(float));
      AddRound(last, largest);
    }
    for (std::size_t k = 0; k < kVectors; ++k) hn::Store(largest[k], d, lanes_ + k * kStep);
  }

  HWY_INLINE std::uint32_t Total() const {
    std::int32_t largest = 0;
    for (const std::int32_t lane : lanes_) largest = lane > largest ? lane : largest;
    return static_cast<std::uint32_t>(largest);
  }

 private:
  static constexpr std::size_t kStep = hn::MaxLanes(hn::ScalableTag<std::int32_t>());
  static constexpr std::size_t kVectors = kSquareSums / kStep;

  template <typename V>
  static HWY_INLINE void AddRound(const float* values, V* largest) {
    const hn::ScalableTag<std::int32_t> d;
    const auto mask = hn::Set(d, 0x7FFFFFFF);
    const auto* from = reinterpret_cast<const std::int32_t*>(values);
    for (std::size_t k = 0; k < kVectors; ++k) {
      largest[k] = hn::Max(largest[k], hn::And(hn::LoadU(d, from + k * kStep), mask));
    }
  }

  alignas(64) std::int32_t lanes_[kSquareSums] = {};
};

HWY_INLINE std::uint32_t LargestMagnitudeBits(const float* values, std::size_t count) {
  LargestBits largest;
  largest.Add(values, count);
  return largest.Total();
}

// Every kernel that computes norms during other work has its own copy of that part, except those
// of the portable target: they take many seconds to compile, and their speed matters less.
#undef EQT_CODEC_NORM_INLINE
#if HWY_TARGET == HWY_SCALAR
#define EQT_CODEC_NORM_INLINE HWY_NOINLINE
#else
#define EQT_CODEC_NORM_INLINE HWY_INLINE
#endif

/// A bucket's norm, computed in parts during other work.
class NormAccumulator {
 public:
  explicit NormAccumulator(Norm kind) : kind_(kind) {}

  /// Begins the norm of `bucket`, or nothing if it is null.
  EQT_CODEC_NORM_INLINE void Start(const float* bucket) {
    next_ = bucket;
    gradient_ = nullptr;
    if (kind_ == Norm::l2) {
      squares_ = {};
    } else {
      largest_ = {};
    }
  }
  /// The norm of `bucket` plus `gradient`; the sum is left in `bucket`.
  EQT_CODEC_NORM_INLINE void Start(float* bucket, const float* gradient) {
    Start(bucket);
    sum_ = bucket;
    gradient_ = gradient;
  }

  /// The next `count` values, a multiple of kSquareSums.
  EQT_CODEC_NORM_INLINE void Step(std::size_t count) {
    if (next_ == nullptr) return;
    prefetch(next_, count);
    if (gradient_ != nullptr) AddGradient(count);
    if (kind_ == Norm::l2) {
      squares_.Add(next_, count);
    } else {
      largest_.Add(next_, count);
    }
    next_ += count;
  }
  /// Takes the next values, too, where nothing else is done meanwhile: those of a whole bucket.
  HWY_NOINLINE void StepAlone(std::size_t count) { Step(count); }

  /// After all values: the norm, or NaN if they are not all finite or it is out of range.
  EQT_CODEC_NORM_INLINE float Result() const {
    if (kind_ == Norm::max) return std::bit_cast<float>(largest_.Total());
    const double squares = squares_.Total();
    constexpr double kMost = static_cast<double>(kLargeNorm) * static_cast<double>(kLargeNorm);
    return squares <= kMost ? norm_of_squares(squares) : std::bit_cast<float>(0x7FC00000);
  }

 private:
  static HWY_INLINE void prefetch(const float* next, std::size_t count) {
#if HWY_ARCH_X86
    prefetch_pages(next, count);
#else
    // Hardware prefetchers stop at the end of a page.
    constexpr std::size_t kPage = 1024;  // [values]
    for (std::size_t i = 0; i < count; i += 16) hwy::Prefetch(next + kPage + i);
#endif
  }

  HWY_INLINE void AddGradient(std::size_t count) {
    const hn::ScalableTag<float> d;
    prefetch(gradient_, count);
    for (std::size_t i = 0; i < count; i += hn::MaxLanes(d)) {
      const auto sum = hn::Add(hn::LoadU(d, sum_ + i), hn::LoadU(d, gradient_ + i));
      hn::StoreU(sum, d, sum_ + i);
    }
    gradient_ += count;
    sum_ += count;
  }

  const float* next_ = nullptr;
  float* sum_ = nullptr;             // the same values, if they are to be changed
  const float* gradient_ = nullptr;  // to add to them
  Norm kind_;
  SquareSums squares_;
  LargestBits largest_;
};

/// Stands where a NormAccumulator may, for kernels that compute no norm.
struct NoNorm {
  HWY_INLINE void Step(std::size_t /*count*/) const {}
};

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
