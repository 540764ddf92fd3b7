// SPDX-License-Identifier: Apache-2.0
#include "int8/packing.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "int8/packing.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::int8::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

template <typename From, typename To, std::ptrdiff_t kPixels>
void pack_plain(const Packing& p) {
  std::size_t at = 0;
  for (std::size_t row = 0; row < p.rows; ++row) {
    const std::byte* pixel = p.from + static_cast<std::ptrdiff_t>(row) * p.row_bytes;
    for (std::size_t s = 0; s < p.steps; ++s, pixel += kPixels * p.pixel_bytes, at += p.step_bytes)
      for (std::ptrdiff_t i = 0; i < kPixels; ++i)
        for (std::ptrdiff_t lane = 0; lane < 16; ++lane)
          reinterpret_cast<To*>(p.to[lane / 4] + at)[lane % 4 * kPixels + i] =
              reinterpret_cast<const From*>(pixel + i * p.pixel_bytes)[lane];
  }
}
void bytes(const Packing& p) { pack_plain<std::int8_t, std::int8_t, 4>(p); }
void words(const Packing& p) { pack_plain<std::int16_t, std::int16_t, 2>(p); }
void widened(const Packing& p) { pack_plain<std::int8_t, std::int16_t, 2>(p); }

#else

using Bytes = hn::FixedTag<std::int8_t, 16>;
using HalfBytes = hn::FixedTag<std::int8_t, 8>;
using Words = hn::FixedTag<std::int16_t, 8>;

/// Alternates the words of a and b.
HWY_INLINE void store_pairs(hn::Vec<Words> a, hn::Vec<Words> b, std::byte* low, std::byte* high) {
  const Words dw;
  hn::StoreU(hn::InterleaveLower(dw, a, b), dw, reinterpret_cast<std::int16_t*>(low));
  hn::StoreU(hn::InterleaveUpper(dw, a, b), dw, reinterpret_cast<std::int16_t*>(high));
}

void bytes(const Packing& p) {
  const Bytes db;
  const Words dw;
  std::size_t at = 0;
  for (std::size_t row = 0; row < p.rows; ++row) {
    const std::byte* pixel = p.from + static_cast<std::ptrdiff_t>(row) * p.row_bytes;
    for (std::size_t s = 0; s < p.steps; ++s, pixel += 4 * p.pixel_bytes, at += p.step_bytes) {
      const auto* from = reinterpret_cast<const std::int8_t*>(pixel);
      const auto a = hn::LoadU(db, from), b = hn::LoadU(db, from + p.pixel_bytes);
      const auto c = hn::LoadU(db, from + 2 * p.pixel_bytes);
      const auto d = hn::LoadU(db, from + 3 * p.pixel_bytes);
      store_pairs(hn::BitCast(dw, hn::InterleaveLower(db, a, b)),
                  hn::BitCast(dw, hn::InterleaveLower(db, c, d)), p.to[0] + at, p.to[1] + at);
      store_pairs(hn::BitCast(dw, hn::InterleaveUpper(db, a, b)),
                  hn::BitCast(dw, hn::InterleaveUpper(db, c, d)), p.to[2] + at, p.to[3] + at);
    }
  }
}

HWY_INLINE hn::Vec<Words> load_words(const std::int16_t* from) { return hn::LoadU(Words(), from); }
HWY_INLINE hn::Vec<Words> load_words(const std::int8_t* from) {
  return hn::PromoteTo(Words(), hn::LoadU(HalfBytes(), from));
}

template <typename From>
HWY_INLINE void pack_pairs(const Packing& p) {
  std::size_t at = 0;
  for (std::size_t row = 0; row < p.rows; ++row) {
    const std::byte* pixel = p.from + static_cast<std::ptrdiff_t>(row) * p.row_bytes;
    for (std::size_t s = 0; s < p.steps; ++s, pixel += 2 * p.pixel_bytes, at += p.step_bytes) {
      const auto* a = reinterpret_cast<const From*>(pixel);
      const auto* b = reinterpret_cast<const From*>(pixel + p.pixel_bytes);
      store_pairs(load_words(a), load_words(b), p.to[0] + at, p.to[1] + at);
      store_pairs(load_words(a + 8), load_words(b + 8), p.to[2] + at, p.to[3] + at);
    }
  }
}
void words(const Packing& p) { pack_pairs<std::int16_t>(p); }
void widened(const Packing& p) { pack_pairs<std::int8_t>(p); }

#endif

}  // namespace
}  // namespace eqt::int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::int8 {
namespace {

HWY_EXPORT(bytes);
HWY_EXPORT(words);
HWY_EXPORT(widened);

/// convert(value) of each value of the image, `around` elsewhere.
template <typename T, typename Convert>
void fill(const Frame& frame, const std::int8_t* q, T around, T* to, Convert convert) {
  const auto channels = static_cast<std::size_t>(frame.channels);
  const auto width = static_cast<std::size_t>(frame.in_width);
  const auto step = static_cast<std::size_t>(frame.in_step);
  const std::size_t row_values = step * static_cast<std::size_t>(frame.from_width) * channels;
  T* const end = to + frame.count();
  T* at = to;
  for (int row = 0; row < frame.in_height; ++row, q += row_values) {
    T* const begin = to + frame.pixel(frame.top + row, frame.left);
    std::fill(at, begin, around);
    at = begin + width * channels;
    if (step == 1) {
      std::transform(q, q + width * channels, begin, convert);
      continue;
    }
    for (std::size_t column = 0; column < width; ++column) {
      const std::int8_t* const from = q + column * step * channels;
      std::transform(from, from + channels, begin + column * channels, convert);
    }
  }
  std::fill(at, end, around);
}

}  // namespace

void pack_bytes(const Packing& packing) { HWY_DYNAMIC_DISPATCH(bytes)(packing); }
void pack_words(const Packing& packing) { HWY_DYNAMIC_DISPATCH(words)(packing); }
void pack_widened(const Packing& packing) { HWY_DYNAMIC_DISPATCH(widened)(packing); }

void fill_frame(const Frame& frame, const std::int8_t* q, int zero_point, int offset,
                std::uint8_t* to) {
  const auto flip = static_cast<std::uint8_t>(offset);
  fill(frame, q, static_cast<std::uint8_t>(zero_point + offset), to, [flip](std::int8_t v) {
    return static_cast<std::uint8_t>(static_cast<std::uint8_t>(v) ^ flip);
  });
}

void fill_frame(const Frame& frame, const std::int8_t* q, int zero_point, std::int16_t* to) {
  const auto zero = static_cast<std::int16_t>(zero_point);
  fill(frame, q, std::int16_t{0}, to,
       [zero](std::int8_t v) { return static_cast<std::int16_t>(v - zero); });
}

}  // namespace eqt::int8
#endif  // HWY_ONCE
