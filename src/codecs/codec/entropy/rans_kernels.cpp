// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/rans_kernels.hpp"

#define HWY_WANT_SSE4 1
#define HWY_WANT_AVX3_DL 1  // permutations and expansions of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/entropy/rans_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "codec/entropy/rans_avx2-inl.hpp"
#include "codec/entropy/rans_avx3-inl.hpp"
#include "codec/entropy/rans_plain-inl.hpp"
#include "codec/entropy/rans_scalar-inl.hpp"
#include "codec/entropy/rans_vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {

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
