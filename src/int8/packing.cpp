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

constexpr std::size_t kStep = 64;  // bytes of a block's step

#if HWY_TARGET == HWY_SCALAR

template <typename From, typename To, std::ptrdiff_t kRows>
void pack_plain(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  for (std::size_t s = 0; s < steps; ++s, rows += kRows * row_bytes, to += kStep) {
    for (std::ptrdiff_t r = 0; r < kRows; ++r) {
      const auto* from = reinterpret_cast<const From*>(rows + r * row_bytes);
      for (std::ptrdiff_t lane = 0; lane < 16; ++lane)
        reinterpret_cast<To*>(to)[lane * kRows + r] = static_cast<To>(from[lane]);
    }
  }
}
void bytes(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  pack_plain<std::int8_t, std::int8_t, 4>(rows, row_bytes, steps, to);
}
void words(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  pack_plain<std::int16_t, std::int16_t, 2>(rows, row_bytes, steps, to);
}
void widened(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  pack_plain<std::int8_t, std::int16_t, 2>(rows, row_bytes, steps, to);
}

#else

using Bytes = hn::FixedTag<std::int8_t, 16>;
using HalfBytes = hn::FixedTag<std::int8_t, 8>;
using Words = hn::FixedTag<std::int16_t, 8>;

/// Alternates the words of a and b.
HWY_INLINE void store_pairs(hn::Vec<Words> a, hn::Vec<Words> b, std::byte* to) {
  const Words dw;
  auto* words = reinterpret_cast<std::int16_t*>(to);
  hn::StoreU(hn::InterleaveLower(dw, a, b), dw, words);
  hn::StoreU(hn::InterleaveUpper(dw, a, b), dw, words + 8);
}

void bytes(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  const Bytes db;
  const Words dw;
  for (std::size_t s = 0; s < steps; ++s, rows += 4 * row_bytes, to += kStep) {
    const auto row = [&](std::ptrdiff_t r) HWY_ATTR {
      return hn::LoadU(db, reinterpret_cast<const std::int8_t*>(rows + r * row_bytes));
    };
    const auto a = row(0), b = row(1), c = row(2), d = row(3);
    store_pairs(hn::BitCast(dw, hn::InterleaveLower(db, a, b)),
                hn::BitCast(dw, hn::InterleaveLower(db, c, d)), to);
    store_pairs(hn::BitCast(dw, hn::InterleaveUpper(db, a, b)),
                hn::BitCast(dw, hn::InterleaveUpper(db, c, d)), to + kStep / 2);
  }
}

void words(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  const Words dw;
  for (std::size_t s = 0; s < steps; ++s, rows += 2 * row_bytes, to += kStep) {
    const auto* a = reinterpret_cast<const std::int16_t*>(rows);
    const auto* b = reinterpret_cast<const std::int16_t*>(rows + row_bytes);
    store_pairs(hn::LoadU(dw, a), hn::LoadU(dw, b), to);
    store_pairs(hn::LoadU(dw, a + 8), hn::LoadU(dw, b + 8), to + kStep / 2);
  }
}

void widened(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  const HalfBytes dh;
  const Words dw;
  for (std::size_t s = 0; s < steps; ++s, rows += 2 * row_bytes, to += kStep) {
    const auto* a = reinterpret_cast<const std::int8_t*>(rows);
    const auto* b = reinterpret_cast<const std::int8_t*>(rows + row_bytes);
    store_pairs(hn::PromoteTo(dw, hn::LoadU(dh, a)), hn::PromoteTo(dw, hn::LoadU(dh, b)), to);
    store_pairs(hn::PromoteTo(dw, hn::LoadU(dh, a + 8)), hn::PromoteTo(dw, hn::LoadU(dh, b + 8)),
                to + kStep / 2);
  }
}

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
  const auto in_channels = static_cast<std::size_t>(frame.in_channels);
  const auto in_width = static_cast<std::size_t>(frame.in_width);
  T* const end = to + frame.count();
  T* at = to;
  for (int row = 0; row < frame.in_height; ++row, q += in_width * in_channels) {
    T* const begin = to + frame.pixel(frame.top + row, frame.left);
    std::fill(at, begin, around);
    at = begin + in_width * channels;
    if (channels == in_channels) {
      std::transform(q, q + in_width * channels, begin, convert);
      continue;
    }
    for (std::size_t column = 0; column < in_width; ++column) {
      T* const pixel = begin + column * channels;
      const std::int8_t* const from = q + column * in_channels;
      for (std::size_t c = 0; c < in_channels; ++c) pixel[c] = convert(from[c]);
      for (std::size_t c = in_channels; c < channels; ++c) pixel[c] = around;
    }
  }
  std::fill(at, end, around);
}

}  // namespace

void pack_bytes(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(bytes)(rows, row_bytes, steps, to);
}
void pack_words(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(words)(rows, row_bytes, steps, to);
}
void pack_widened(const std::byte* rows, std::ptrdiff_t row_bytes, std::size_t steps,
                  std::byte* to) {
  HWY_DYNAMIC_DISPATCH(widened)(rows, row_bytes, steps, to);
}

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
