// SPDX-License-Identifier: Apache-2.0
#include "codec/integer/integer_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/integer/integer_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After foreach_target.
#include "codec/integer/bit_planes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;

template <typename T>
void pack(const T* HWY_RESTRICT codes, std::size_t count, int limit, int width,
          std::uint8_t* HWY_RESTRICT to) {
  const std::size_t block_bytes = static_cast<std::size_t>(width) * kPlaneBytes;
  std::size_t i = 0;
  for (; i + kPlaneCodes <= count; i += kPlaneCodes, to += block_bytes) {
    pack_block(codes + i, limit, width, to);
  }
  if (i == count) return;
  T last[kPlaneCodes];
  std::uint8_t planes[kMaxPlanes * kPlaneBytes];
  std::fill_n(last, kPlaneCodes, static_cast<T>(-limit));
  std::copy(codes + i, codes + count, last);
  pack_block(last, limit, width, planes);
  const std::size_t bytes = (count - i + 7) / 8;
  for (int j = 0; j < width; ++j, to += bytes) {
    std::memcpy(to, planes + static_cast<std::size_t>(j) * kPlaneBytes, bytes);
  }
}

template <typename T>
bool unpack(const std::uint8_t* HWY_RESTRICT from, std::size_t count, int limit, int width,
            T* HWY_RESTRICT codes) {
  const std::size_t block_bytes = static_cast<std::size_t>(width) * kPlaneBytes;
  BlockUnpacker<T> unpack_block(limit, width);
  std::size_t i = 0;
  // Vectors read up to 8 bytes more than they need: the last two blocks come from a copy.
  for (; i + 2 * kPlaneCodes <= count; i += kPlaneCodes, from += block_bytes) {
    unpack_block(from, codes + i);
  }
  std::uint8_t planes[(kMaxPlanes + 1) * kPlaneBytes] = {};
  if (i + kPlaneCodes <= count) {
    std::memcpy(planes, from, block_bytes);
    unpack_block(planes, codes + i);
    i += kPlaneCodes;
    from += block_bytes;
  }
  if (i == count) return unpack_block.in_range();
  std::fill_n(planes, sizeof planes, std::uint8_t{0});
  const std::size_t bytes = (count - i + 7) / 8;
  for (int j = 0; j < width; ++j, from += bytes) {
    std::memcpy(planes + static_cast<std::size_t>(j) * kPlaneBytes, from, bytes);
  }
  T last[kPlaneCodes];
  unpack_block(planes, last);
  std::copy(last, last + (count - i), codes + i);
  const bool padded = std::all_of(last + (count - i), last + kPlaneCodes,
                                  [&](T code) { return code == static_cast<T>(-limit); });
  return padded && unpack_block.in_range();
}

void pack8(const std::int8_t* codes, std::size_t count, int limit, int width, std::uint8_t* to) {
  pack(codes, count, limit, width, to);
}
void pack16(const std::int16_t* codes, std::size_t count, int limit, int width, std::uint8_t* to) {
  pack(codes, count, limit, width, to);
}
bool unpack8(const std::uint8_t* from, std::size_t count, int limit, int width,
             std::int8_t* codes) {
  return unpack(from, count, limit, width, codes);
}
bool unpack16(const std::uint8_t* from, std::size_t count, int limit, int width,
              std::int16_t* codes) {
  return unpack(from, count, limit, width, codes);
}

void add8(const std::int8_t* HWY_RESTRICT codes, std::size_t count,
          std::int8_t* HWY_RESTRICT sums) {
  const hn::ScalableTag<std::int8_t> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, codes + i), hn::LoadU(d, sums + i)), d, sums + i);
  }
  for (; i < count; ++i) sums[i] = static_cast<std::int8_t>(sums[i] + codes[i]);
}

void add16(const std::int8_t* HWY_RESTRICT codes, std::size_t count,
           std::int16_t* HWY_RESTRICT sums) {
  const hn::ScalableTag<std::int16_t> d;
  const hn::Rebind<std::int8_t, decltype(d)> d8;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto wide = hn::PromoteTo(d, hn::LoadU(d8, codes + i));
    hn::StoreU(hn::Add(wide, hn::LoadU(d, sums + i)), d, sums + i);
  }
  for (; i < count; ++i) sums[i] = static_cast<std::int16_t>(sums[i] + codes[i]);
}

/// step * codes, or values - step * codes.
template <bool kSubtract, typename T>
void scale(const T* HWY_RESTRICT codes, std::size_t count, float step, float* HWY_RESTRICT values) {
  const Floats df;
  const hn::Rebind<T, Floats> dc;
  constexpr std::size_t kLanes = hn::MaxLanes(df);
  const auto steps = hn::Set(df, step);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto q = hn::ConvertTo(df, hn::PromoteTo(Ints(), hn::LoadU(dc, codes + i)));
    const auto scaled = hn::Mul(steps, q);
    if constexpr (kSubtract) {
      hn::StoreU(hn::Sub(hn::LoadU(df, values + i), scaled), df, values + i);
    } else {
      hn::StoreU(scaled, df, values + i);
    }
  }
  for (; i < count; ++i) {
    const float scaled = step * static_cast<float>(codes[i]);
    values[i] = kSubtract ? values[i] - scaled : scaled;
  }
}

void scale8(const std::int8_t* codes, std::size_t count, float step, float* values) {
  scale<false>(codes, count, step, values);
}
void scale16(const std::int16_t* codes, std::size_t count, float step, float* values) {
  scale<false>(codes, count, step, values);
}
void subtract8(const std::int8_t* codes, std::size_t count, float step, float* values) {
  scale<true>(codes, count, step, values);
}

void signed8(std::int8_t* codes, std::size_t count) {
  const hn::ScalableTag<std::int8_t> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  const auto magnitudes = hn::Set(d, std::int8_t{0x7F});
  const auto zero = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto code = hn::LoadU(d, codes + i);
    const auto index = hn::And(code, magnitudes);
    hn::StoreU(hn::IfThenElse(hn::Lt(code, zero), hn::Sub(zero, index), index), d, codes + i);
  }
  for (; i < count; ++i) {
    const int index = codes[i] & 0x7F;
    codes[i] = static_cast<std::int8_t>(codes[i] < 0 ? -index : index);
  }
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(pack8);
HWY_EXPORT(pack16);
HWY_EXPORT(unpack8);
HWY_EXPORT(unpack16);
HWY_EXPORT(add8);
HWY_EXPORT(add16);
HWY_EXPORT(scale8);
HWY_EXPORT(scale16);
HWY_EXPORT(subtract8);
HWY_EXPORT(signed8);

void check(std::size_t count, std::size_t bytes, std::uint32_t limit, std::uint32_t most) {
  EQT_CHECK(limit >= 1 && limit <= most, "codes up to {} where {} fit", limit, most);
  EQT_CHECK(bytes == packed_bytes(count, code_width(limit)), "{} bytes for {} codes up to {}",
            bytes, count, limit);
}

void check_counts(std::size_t codes, std::size_t others) {
  EQT_CHECK(codes == others, "{} codes for {} values", codes, others);
}

std::uint8_t* bytes_of(std::span<std::byte> to) {
  return reinterpret_cast<std::uint8_t*>(to.data());
}
const std::uint8_t* bytes_of(std::span<const std::byte> from) {
  return reinterpret_cast<const std::uint8_t*>(from.data());
}

}  // namespace

void pack_codes(std::span<const std::int8_t> codes, std::uint32_t limit, std::span<std::byte> to) {
  check(codes.size(), to.size(), limit, 127);
  HWY_DYNAMIC_DISPATCH(pack8)
  (codes.data(), codes.size(), static_cast<int>(limit), code_width(limit), bytes_of(to));
}

void pack_codes(std::span<const std::int16_t> codes, std::uint32_t limit, std::span<std::byte> to) {
  check(codes.size(), to.size(), limit, 32767);
  HWY_DYNAMIC_DISPATCH(pack16)
  (codes.data(), codes.size(), static_cast<int>(limit), code_width(limit), bytes_of(to));
}

bool unpack_codes(std::span<const std::byte> from, std::uint32_t limit,
                  std::span<std::int8_t> codes) {
  check(codes.size(), from.size(), limit, 127);
  return HWY_DYNAMIC_DISPATCH(unpack8)(bytes_of(from), codes.size(), static_cast<int>(limit),
                                       code_width(limit), codes.data());
}

bool unpack_codes(std::span<const std::byte> from, std::uint32_t limit,
                  std::span<std::int16_t> codes) {
  check(codes.size(), from.size(), limit, 32767);
  return HWY_DYNAMIC_DISPATCH(unpack16)(bytes_of(from), codes.size(), static_cast<int>(limit),
                                        code_width(limit), codes.data());
}

void add_codes(std::span<const std::int8_t> codes, std::span<std::int8_t> sums) {
  check_counts(codes.size(), sums.size());
  HWY_DYNAMIC_DISPATCH(add8)(codes.data(), codes.size(), sums.data());
}

void add_codes(std::span<const std::int8_t> codes, std::span<std::int16_t> sums) {
  check_counts(codes.size(), sums.size());
  HWY_DYNAMIC_DISPATCH(add16)(codes.data(), codes.size(), sums.data());
}

void scale_codes(std::span<const std::int8_t> codes, float step, std::span<float> values) {
  check_counts(codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(scale8)(codes.data(), codes.size(), step, values.data());
}

void scale_codes(std::span<const std::int16_t> codes, float step, std::span<float> values) {
  check_counts(codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(scale16)(codes.data(), codes.size(), step, values.data());
}

void subtract_scaled(std::span<const std::int8_t> codes, float step, std::span<float> values) {
  check_counts(codes.size(), values.size());
  HWY_DYNAMIC_DISPATCH(subtract8)(codes.data(), codes.size(), step, values.data());
}

void signed_from_magnitudes(std::span<std::int8_t> codes) {
  HWY_DYNAMIC_DISPATCH(signed8)(codes.data(), codes.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
