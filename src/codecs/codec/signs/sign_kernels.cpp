// SPDX-License-Identifier: Apache-2.0
#include "codec/signs/sign_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "codec/bytes.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/signs/sign_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/bit_plane-inl.hpp"

#ifndef EQT_CODEC_SIGN_KERNELS_ONCE
#define EQT_CODEC_SIGN_KERNELS_ONCE
namespace eqt::codec {
namespace {

constexpr std::size_t kGroup = 32;  // values of one word of signs
constexpr std::size_t kSums = 16;

}  // namespace
}  // namespace eqt::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kSums>;
using Ints = hn::RebindToSigned<Floats>;
using Doubles = hn::CappedTag<double, kSums>;
using HalfFloats = hn::Rebind<float, Doubles>;
constexpr std::size_t kLanes = hn::MaxLanes(Floats());
constexpr std::size_t kDoubleLanes = hn::MaxLanes(Doubles());
constexpr std::size_t kVectors = kSums / kDoubleLanes;

/// With its sign bit flipped, a value below zero is a positive integer; -0 becomes 0.
HWY_INLINE hn::Mask<Ints> is_negative(hn::Vec<Ints> bits) {
  const Ints di;
  return hn::Gt(hn::Xor(bits, hn::Set(di, INT32_MIN)), hn::Zero(di));
}

/// @pre 4 * groups + 8 bytes may be written at `plane`
std::uint32_t pack_groups(const float* HWY_RESTRICT values, std::size_t groups,
                          std::uint8_t* HWY_RESTRICT plane) {
  const Ints di;
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  auto largest = hn::Zero(di);
  constexpr std::size_t kStep = mask_group(Floats());
  for (std::size_t i = 0; i < groups * kGroup; i += kStep) {
    const auto sign_mask = [&](std::size_t j) HWY_ATTR {
      const auto bits = hn::BitCast(di, hn::LoadU(Floats(), values + i + j));
      largest = hn::Max(largest, hn::And(bits, magnitude));
      return is_negative(bits);
    };
    store_masks(di, sign_mask, plane + i / 8);
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

/// `count` is a multiple of kSums.
void sum_magnitudes(const float* HWY_RESTRICT values, std::size_t count, double* parts) {
  const Doubles dd;
  hn::Vec<Doubles> sums[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) sums[k] = hn::LoadU(dd, parts + k * kDoubleLanes);
  for (std::size_t i = 0; i < count; i += kSums) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const auto v = hn::PromoteTo(dd, hn::LoadU(HalfFloats(), values + i + k * kDoubleLanes));
      sums[k] = hn::Add(sums[k], hn::Abs(v));
    }
  }
  for (std::size_t k = 0; k < kVectors; ++k) hn::StoreU(sums[k], dd, parts + k * kDoubleLanes);
}

/// `count` is a multiple of kSums.
/// @return values below zero
std::size_t sum_sides(const float* HWY_RESTRICT values, std::size_t count, double* negative_parts,
                      double* other_parts) {
  const Doubles dd;
  const Ints di;
  hn::Vec<Doubles> negative[kVectors], other[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) {
    negative[k] = hn::LoadU(dd, negative_parts + k * kDoubleLanes);
    other[k] = hn::LoadU(dd, other_parts + k * kDoubleLanes);
  }
  std::size_t negatives = 0;
  for (std::size_t i = 0; i < count; i += kSums) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const auto v = hn::PromoteTo(dd, hn::LoadU(HalfFloats(), values + i + k * kDoubleLanes));
      negative[k] = hn::Add(negative[k], hn::Min(v, hn::Zero(dd)));
      other[k] = hn::Add(other[k], hn::Max(v, hn::Zero(dd)));
    }
    for (std::size_t j = 0; j < kSums; j += kLanes) {
      const auto bits = hn::BitCast(di, hn::LoadU(Floats(), values + i + j));
      negatives += hn::CountTrue(di, is_negative(bits));
    }
  }
  for (std::size_t k = 0; k < kVectors; ++k) {
    hn::StoreU(negative[k], dd, negative_parts + k * kDoubleLanes);
    hn::StoreU(other[k], dd, other_parts + k * kDoubleLanes);
  }
  return negatives;
}

/// The 32 bits from `bit` on; zeros where the plane has ended.
HWY_INLINE std::uint32_t bits_from(const std::byte* plane, std::size_t bytes, std::size_t bit) {
  const std::size_t at = bit / 8;
  std::uint64_t word = 0;
  if (at + sizeof(word) <= bytes) {
    word = load<std::uint64_t>(plane + at);
  } else {
    std::memcpy(&word, plane + at, bytes - at);
  }
  return static_cast<std::uint32_t>(word >> (bit % 8));
}

void add_groups(const std::byte* HWY_RESTRICT plane, std::size_t bytes, std::size_t first_bit,
                float if_set, float if_clear, float* HWY_RESTRICT sum, std::size_t count) {
  const Floats df;
  const auto set = hn::Set(df, if_set);
  const auto clear = hn::Set(df, if_clear);
  const BitMask<Floats> mask_of_bits;
  const auto add = [&](std::uint32_t word, float* to) HWY_ATTR {
    for (std::size_t j = 0; j < kGroup; j += kLanes) {
      const auto value = hn::IfThenElse(mask_of_bits(word >> j), set, clear);
      hn::StoreU(hn::Add(hn::LoadU(df, to + j), value), df, to + j);
    }
  };
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) add(bits_from(plane, bytes, first_bit + i), sum + i);
  if (i == count) return;
  float last[kGroup] = {};
  std::memcpy(last, sum + i, (count - i) * sizeof(float));
  add(bits_from(plane, bytes, first_bit + i), last);
  std::memcpy(sum + i, last, (count - i) * sizeof(float));
}

void vote(float* HWY_RESTRICT mean, std::size_t count, float tie) {
  const Floats df;
  const auto limit = hn::Set(df, -tie);
  const auto plus = hn::Set(df, 1.0f);
  const auto minus = hn::Set(df, -1.0f);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto against = hn::Lt(hn::LoadU(df, mean + i), limit);
    hn::StoreU(hn::IfThenElse(against, minus, plus), df, mean + i);
  }
  for (; i < count; ++i) mean[i] = mean[i] < -tie ? -1.0f : 1.0f;
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(pack_groups);
HWY_EXPORT(sum_magnitudes);
HWY_EXPORT(sum_sides);
HWY_EXPORT(add_groups);
HWY_EXPORT(vote);

/// The values after the last multiple of kSums, padded with zeros, which add nothing.
struct LastValues {
  explicit LastValues(std::span<const float> values) {
    const std::size_t whole = values.size() / kSums * kSums;
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(whole), values.end(), padded);
  }
  float padded[kSums] = {};
};

}  // namespace

double PartialSums::total() const {
  double sums[kSums];
  std::copy_n(part, kSums, sums);
  for (std::size_t width = kSums / 2; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
  return sums[0];
}

std::uint32_t pack_signs(std::span<const float> values, std::byte* plane) {
  const auto pack = HWY_DYNAMIC_DISPATCH(pack_groups);
  std::uint8_t bits[plane_bytes(kSignBlock) + 8];  // kernels may write beyond their last bit
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < values.size(); i += kSignBlock) {
    const auto block = values.subspan(i, std::min(kSignBlock, values.size() - i));
    const std::size_t groups = block.size() / kGroup;
    const std::size_t rest = block.size() % kGroup;
    largest = std::max(largest, pack(block.data(), groups, bits));
    if (rest > 0) {
      float last[kGroup] = {};
      std::copy(block.end() - static_cast<std::ptrdiff_t>(rest), block.end(), last);
      largest = std::max(largest, pack(last, 1, bits + groups * kGroup / 8));
    }
    std::memcpy(plane + i / 8, bits, plane_bytes(block.size()));
  }
  return largest;
}

void add_magnitudes(std::span<const float> values, PartialSums& sums) {
  const auto add = HWY_DYNAMIC_DISPATCH(sum_magnitudes);
  add(values.data(), values.size() / kSums * kSums, sums.part);
  if (values.size() % kSums != 0) add(LastValues(values).padded, kSums, sums.part);
}

void add_sides(std::span<const float> values, SideSums& sides) {
  const auto add = HWY_DYNAMIC_DISPATCH(sum_sides);
  double* negative = sides.negative.part;
  double* other = sides.other.part;
  sides.negatives += add(values.data(), values.size() / kSums * kSums, negative, other);
  if (values.size() % kSums != 0) {
    sides.negatives += add(LastValues(values).padded, kSums, negative, other);
  }
}

void add_signs(std::span<const std::byte> plane, std::size_t first_bit, float if_set,
               float if_clear, std::span<float> sum) {
  EQT_CHECK(plane.size() >= plane_bytes(first_bit + sum.size()), "{} bytes for {} signs from {} on",
            plane.size(), sum.size(), first_bit);
  HWY_DYNAMIC_DISPATCH(add_groups)
  (plane.data(), plane.size(), first_bit, if_set, if_clear, sum.data(), sum.size());
}

void take_majority(std::span<float> mean, float tie) {
  HWY_DYNAMIC_DISPATCH(vote)(mean.data(), mean.size(), tie);
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
