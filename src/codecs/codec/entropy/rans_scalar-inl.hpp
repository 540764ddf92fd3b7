// SPDX-License-Identifier: Apache-2.0
// Steps of rANS without vectors. Included once per vector target, inside the files that Highway
// compiles for each.

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/entropy/rans_kernels.hpp"
#include "codec/entropy/rans_plain-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_RANS_SCALAR_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_RANS_SCALAR_INL_HPP
#undef EQT_CODEC_RANS_SCALAR_INL_HPP
#else
#define EQT_CODEC_RANS_SCALAR_INL_HPP
#endif

#if HWY_TARGET == HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

// Without branches on the data, because it is random whether a state writes a byte.
std::byte* EncodeFullSteps(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t steps,
                           std::uint32_t* states, std::byte* at) {
  for (std::size_t s = steps; s-- > 0;) {
    const std::uint8_t* const step = codes + s * kRansLanes;
    for (std::size_t lane = kRansLanes; lane-- > 0;) {
      const std::size_t index = step[lane] & 0xFu;
      std::uint32_t x = states[lane];
      const bool full = x >= t.limit[index];
      at[-1] = static_cast<std::byte>(x);
      at -= full;
      x >>= full ? 8 : 0;
      const auto q = static_cast<std::uint32_t>(std::uint64_t{x} * t.reciprocal32[index] >> 32);
      states[lane] = x + t.bias[index] + q * t.complement[index];
    }
  }
  return at;
}

void DecodeFullSteps(const RansDecoderTables& t, Source& source, std::uint8_t* codes,
                     std::size_t steps, std::uint32_t* states) {
  const std::byte* at = source.begin;
  const std::byte* const end = source.begin + source.size;
  std::uint32_t local[kRansLanes];
  std::memcpy(local, states, sizeof local);
  std::size_t s = 0;
  for (; s < steps && end - at >= static_cast<std::ptrdiff_t>(kRansLanes); ++s) {
    for (std::size_t lane = 0; lane < kRansLanes; ++lane) {
      const std::uint32_t slot = local[lane] & 0xFF;
      codes[s * kRansLanes + lane] = t.index[slot];
      const std::uint32_t x = (local[lane] >> 8) * t.frequency[slot] + t.offset[slot];
      const std::uint32_t refill = x < kLow ? 1 : 0;
      const std::uint32_t byte = std::to_integer<std::uint32_t>(*at) & (0 - refill);
      local[lane] = x << (8 * refill) | byte;
      at += refill;
    }
  }
  std::memcpy(states, local, sizeof local);
  DecodeLastSteps(t, source, at, codes, s, steps, states);
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // guard
