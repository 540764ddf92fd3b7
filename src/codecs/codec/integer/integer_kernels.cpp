// SPDX-License-Identifier: Apache-2.0
#include "codec/integer/integer_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/integer/integer_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Blocks of codes as planes of bits.

constexpr std::size_t kPlaneBytes = kPlaneCodes / 8;

#if HWY_TARGET == HWY_SCALAR

template <typename T>
void pack_block(const T* codes, int limit, int width, std::uint8_t* to) {
  std::uint64_t planes[kMaxPlanes] = {};
  for (std::size_t i = 0; i < kPlaneCodes; ++i) {
    const auto u = static_cast<std::uint32_t>(codes[i] + limit);
    for (int j = 0; j < width; ++j) planes[j] |= std::uint64_t{u >> j & 1} << i;
  }
  std::memcpy(to, planes, static_cast<std::size_t>(width) * kPlaneBytes);
}

/// Keeps the codes, and the bits of a code above 2 limit.
template <typename T>
class BlockUnpacker {
 public:
  BlockUnpacker(int limit, int width) : limit_(limit), width_(width) {}

  void operator()(const std::uint8_t* from, T* codes) {
    std::uint64_t planes[kMaxPlanes];
    std::memcpy(planes, from, static_cast<std::size_t>(width_) * kPlaneBytes);
    for (std::size_t i = 0; i < kPlaneCodes; ++i) {
      std::uint32_t u = 0;
      for (int j = 0; j < width_; ++j) u |= static_cast<std::uint32_t>(planes[j] >> i & 1) << j;
      largest_ = std::max(largest_, u);
      codes[i] = static_cast<T>(static_cast<int>(u) - limit_);
    }
  }
  bool in_range() const { return largest_ <= 2 * static_cast<std::uint32_t>(limit_); }

 private:
  int limit_, width_;
  std::uint32_t largest_ = 0;
};

#else

using Bytes = hn::CappedTag<std::uint8_t, kPlaneCodes>;
using Words = hn::ScalableTag<std::uint16_t>;
using WordBytes = hn::Rebind<std::uint8_t, Words>;

/// Writes `width` <= 8 planes of 64 codes; take_byte(i) returns the bytes from byte i on.
template <typename TakeByte>
HWY_INLINE void write_planes(const TakeByte& take_byte, int width, std::uint8_t* to) {
  const Bytes du;
  for (std::size_t i = 0; i < kPlaneCodes; i += hn::MaxLanes(du)) {
    const auto u = take_byte(i);
    auto bit = hn::Set(du, std::uint8_t{1});
    std::uint8_t* at = to + i / 8;
    for (int j = 0; j < width; ++j, at += kPlaneBytes) {
      hn::StoreMaskBits(du, hn::TestBit(u, bit), at);
      bit = hn::Add(bit, bit);
    }
  }
}

/// The inverse: calls give_byte(i, bytes).
/// @pre 8 bytes may be read behind the planes
template <typename GiveByte>
HWY_INLINE void read_planes(const std::uint8_t* from, int width, const GiveByte& give_byte) {
  const Bytes du;
  for (std::size_t i = 0; i < kPlaneCodes; i += hn::MaxLanes(du)) {
    auto u = hn::Zero(du);
    auto bit = hn::Set(du, std::uint8_t{1});
    const std::uint8_t* at = from + i / 8;
    for (int j = 0; j < width; ++j, at += kPlaneBytes) {
      u = hn::Or(u, hn::IfThenElseZero(hn::LoadMaskBits(du, at), bit));
      bit = hn::Add(bit, bit);
    }
    give_byte(i, u);
  }
}

HWY_INLINE void pack_block(const std::int8_t* codes, int limit, int width, std::uint8_t* to) {
  const Bytes du;
  const auto offset = hn::Set(du, static_cast<std::uint8_t>(limit));
  const auto* from = reinterpret_cast<const std::uint8_t*>(codes);
  write_planes([&](std::size_t i) HWY_ATTR { return hn::Add(hn::LoadU(du, from + i), offset); },
               width, to);
}

/// The two bytes of a code are packed separately, because vectors of bytes hold twice as many
/// codes.
HWY_INLINE void pack_block(const std::int16_t* codes, int limit, int width, std::uint8_t* to) {
  const Words dw;
  const Bytes du;
  HWY_ALIGN std::uint8_t low[kPlaneCodes], high[kPlaneCodes];
  const auto offset = hn::Set(dw, static_cast<std::uint16_t>(limit));
  const auto* from = reinterpret_cast<const std::uint16_t*>(codes);
  for (std::size_t i = 0; i < kPlaneCodes; i += hn::MaxLanes(dw)) {
    const auto u = hn::Add(hn::LoadU(dw, from + i), offset);
    hn::StoreU(hn::TruncateTo(WordBytes(), u), WordBytes(), low + i);
    hn::StoreU(hn::TruncateTo(WordBytes(), hn::ShiftRight<8>(u)), WordBytes(), high + i);
  }
  const auto bytes_of = [&](const std::uint8_t* bytes) HWY_ATTR {
    return [du, bytes](std::size_t i) HWY_ATTR { return hn::Load(du, bytes + i); };
  };
  write_planes(bytes_of(low), std::min(width, 8), to);
  if (width > 8) write_planes(bytes_of(high), width - 8, to + 8 * kPlaneBytes);
}

/// Unpacks blocks and remembers the largest code.
template <typename T>
class BlockUnpacker;

template <>
class BlockUnpacker<std::int8_t> {
 public:
  BlockUnpacker(int limit, int width)
      : width_(width), limit_(static_cast<std::uint8_t>(limit)), largest_(hn::Zero(Bytes())) {}

  /// @pre 8 bytes may be read behind the block
  HWY_INLINE void operator()(const std::uint8_t* from, std::int8_t* codes) {
    const Bytes du;
    auto* to = reinterpret_cast<std::uint8_t*>(codes);
    read_planes(from, width_, [&](std::size_t i, hn::Vec<Bytes> u) HWY_ATTR {
      largest_ = hn::Max(largest_, u);
      hn::StoreU(hn::Sub(u, hn::Set(du, limit_)), du, to + i);
    });
  }
  bool in_range() const {
    std::uint8_t lanes[hn::MaxLanes(Bytes())];
    hn::StoreU(largest_, Bytes(), lanes);
    return *std::max_element(std::begin(lanes), std::end(lanes)) <= 2 * limit_;
  }

 private:
  int width_;
  std::uint8_t limit_;
  hn::Vec<Bytes> largest_;
};

template <>
class BlockUnpacker<std::int16_t> {
 public:
  BlockUnpacker(int limit, int width)
      : width_(width), limit_(static_cast<std::uint16_t>(limit)), largest_(hn::Zero(Words())) {}

  /// @pre 8 bytes may be read behind the block
  HWY_INLINE void operator()(const std::uint8_t* from, std::int16_t* codes) {
    const Words dw;
    const Bytes du;
    HWY_ALIGN std::uint8_t low[kPlaneCodes];
    HWY_ALIGN std::uint8_t high[kPlaneCodes] = {};
    read_planes(from, std::min(width_, 8),
                [&](std::size_t i, hn::Vec<Bytes> u) HWY_ATTR { hn::Store(u, du, low + i); });
    if (width_ > 8) {
      read_planes(from + 8 * kPlaneBytes, width_ - 8,
                  [&](std::size_t i, hn::Vec<Bytes> u) HWY_ATTR { hn::Store(u, du, high + i); });
    }
    auto* to = reinterpret_cast<std::uint16_t*>(codes);
    for (std::size_t i = 0; i < kPlaneCodes; i += hn::MaxLanes(dw)) {
      const auto lower = hn::PromoteTo(dw, hn::LoadU(WordBytes(), low + i));
      const auto upper = hn::PromoteTo(dw, hn::LoadU(WordBytes(), high + i));
      const auto u = hn::Or(lower, hn::ShiftLeft<8>(upper));
      largest_ = hn::Max(largest_, u);
      hn::StoreU(hn::Sub(u, hn::Set(dw, limit_)), dw, to + i);
    }
  }
  bool in_range() const {
    std::uint16_t lanes[hn::MaxLanes(Words())];
    hn::StoreU(largest_, Words(), lanes);
    return *std::max_element(std::begin(lanes), std::end(lanes)) <= 2 * limit_;
  }

 private:
  int width_;
  std::uint16_t limit_;
  hn::Vec<Words> largest_;
};

#endif

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
