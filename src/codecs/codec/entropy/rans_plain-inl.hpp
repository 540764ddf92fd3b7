// SPDX-License-Identifier: Apache-2.0
// One rANS state after the other. Included once per vector target, inside the files that Highway
// compiles for each.

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/entropy/rans_kernels.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_RANS_PLAIN_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_RANS_PLAIN_INL_HPP
#undef EQT_CODEC_RANS_PLAIN_INL_HPP
#else
#define EQT_CODEC_RANS_PLAIN_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

constexpr std::uint32_t kLow = std::uint32_t{1} << kRansLowBits;

template <int kPrecision>
void EncodePlain(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t first,
                 std::size_t last, std::uint32_t* states, std::byte*& to) {
  std::byte* at = to;
  for (std::size_t i = last; i-- > first;) {
    const std::size_t index = codes[i] & 0x7Fu;
    const std::uint32_t f = t.frequency[index];
    std::uint32_t x = states[i % kRansLanes];
    while (x >= f << (kRansHighBits - kPrecision)) {
      *--at = static_cast<std::byte>(x);
      x >>= 8;
    }
    const auto q = static_cast<std::uint32_t>(x * t.reciprocal40[index] >> 40);
    states[i % kRansLanes] = x + t.start[index] + q * ((1u << kPrecision) - f);
  }
  to = at;
}

// The bytes of a stream, then zeros.
struct Source {
  const std::byte* begin;
  std::size_t size;
  std::size_t used = 0;

  HWY_INLINE std::uint32_t Next() {
    const auto byte = used < size ? std::to_integer<std::uint32_t>(begin[used]) : 0;
    ++used;
    return byte;
  }
};

template <int kPrecision>
void DecodePlain(const RansDecoderTables& t, Source& source, std::uint8_t* codes, std::size_t first,
                 std::size_t last, std::uint32_t* states) {
  for (std::size_t i = first; i < last; ++i) {
    std::uint32_t x = states[i % kRansLanes];
    const std::uint32_t slot = x % (1u << kPrecision);
    if (kPrecision == 8) {
      codes[i] = t.index[slot];
      x = (x >> 8) * t.frequency[slot] + t.offset[slot];
    } else {
      const std::uint32_t entry = t.packed[slot];
      codes[i] = static_cast<std::uint8_t>(entry >> 24);
      x = (x >> 12) * (entry >> 12 & 0xFFF) + (entry & 0xFFF);
    }
    while (x < kLow) x = x << 8 | source.Next();
    states[i % kRansLanes] = x;
  }
}

// The steps that a vector loop leaves where fewer bytes than those of a whole step may remain.
// `at`: where it stopped, after `done` steps.
HWY_INLINE void DecodeLastSteps(const RansDecoderTables& t, Source& source, const std::byte* at,
                                std::uint8_t* codes, std::size_t done, std::size_t steps,
                                std::uint32_t* states) {
  source.used = static_cast<std::size_t>(at - source.begin);
  DecodePlain<8>(t, source, codes, done * kRansLanes, steps * kRansLanes, states);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
