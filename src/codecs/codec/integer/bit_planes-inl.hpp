// SPDX-License-Identifier: Apache-2.0
// Blocks of codes as planes of bits. Included once per vector target, inside the file that Highway
// compiles for each.

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "codec/integer/integer_kernels.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_BIT_PLANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_BIT_PLANES_INL_HPP
#undef EQT_CODEC_BIT_PLANES_INL_HPP
#else
#define EQT_CODEC_BIT_PLANES_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

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

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
