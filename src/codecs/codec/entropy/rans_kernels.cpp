// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/rans_kernels.hpp"

#include <cstring>

#define HWY_WANT_AVX3_DL 1  // permutations and expansions of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/entropy/rans_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "codec/entropy/rans_avx2-inl.hpp"
#include "codec/entropy/rans_avx3-inl.hpp"
#include "codec/entropy/rans_plain-inl.hpp"
#include "codec/entropy/rans_vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
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
#endif

std::byte* RansEncode(const RansEncoderTables& t, const std::uint8_t* codes, std::size_t count,
                      std::uint32_t* states, std::byte* end) {
  std::byte* at = end;
  if (t.precision == 12) {
    EncodePlain<12>(t, codes, 0, count, states, at);
    return at;
  }
  const std::size_t steps = count / kRansLanes;
  EncodePlain<8>(t, codes, steps * kRansLanes, count, states, at);
  return EncodeFullSteps(t, codes, steps, states, at);
}

std::size_t RansDecode(const RansDecoderTables& t, std::span<const std::byte> from,
                       std::uint32_t* states, std::uint8_t* codes, std::size_t count) {
  Source source{from.data(), from.size()};
  if (t.precision == 12) {
    DecodePlain<12>(t, source, codes, 0, count, states);
    return source.used;
  }
  const std::size_t steps = count / kRansLanes;
  DecodeFullSteps(t, source, codes, steps, states);
  if (source.used <= source.size) {
    DecodePlain<8>(t, source, codes, steps * kRansLanes, count, states);
  }
  return source.used;
}

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

RansEncoderTables rans_encoder_tables(std::span<const std::uint16_t> frequencies, int precision) {
  RansEncoderTables t;
  t.precision = precision;
  std::uint32_t start = 0;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const std::uint32_t f = frequencies[i];
    if (f == 0) continue;
    t.frequency[i] = f;
    t.start[i] = start;
    t.reciprocal40[i] = ((std::uint64_t{1} << 40) + f - 1) / f;
    if (i < kRansVectorSymbols) {
      t.limit[i] = f << (kRansHighBits - 8);
      t.reciprocal32[i] =
          f == 1 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + f - 1) / f);
      t.bias[i] = f == 1 ? start + 255 : start;
      t.complement[i] = 256 - f;
    }
    start += f;
  }
  return t;
}

void rans_decoder_tables(std::span<const std::uint16_t> frequencies, int precision,
                         RansDecoderTables& t) {
  t.precision = precision;
  t.symbols = frequencies.size();
  std::uint32_t slot = 0;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const std::uint32_t f = frequencies[i];
    if (precision == 8) {
      t.starts[i] = static_cast<std::int32_t>(slot);
      t.frequencies[i] = f;
      std::memset(t.frequency.data() + slot, static_cast<int>(f), f);
      std::memset(t.index.data() + slot, static_cast<int>(i), f);
      for (std::uint32_t k = 0; k < f; ++k) {
        t.offset[slot + k] = static_cast<std::uint8_t>(k);
      }
    } else {
      const std::uint32_t entry = static_cast<std::uint32_t>(i) << 24 | f << 12;
      for (std::uint32_t k = 0; k < f; ++k) t.packed[slot + k] = entry | k;
    }
    slot += f;
  }
}

HWY_EXPORT(RansEncode);
HWY_EXPORT(RansDecode);

std::byte* rans_encode(const RansEncoderTables& tables, std::span<const LevelCode> codes,
                       RansStates& states, std::byte* end) {
  return HWY_DYNAMIC_DISPATCH(RansEncode)(tables, codes.data(), codes.size(), states.data(), end);
}

std::size_t rans_decode(const RansDecoderTables& tables, std::span<const std::byte> from,
                        RansStates& states, std::span<LevelCode> codes) {
  return HWY_DYNAMIC_DISPATCH(RansDecode)(tables, from, states.data(), codes.data(), codes.size());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
