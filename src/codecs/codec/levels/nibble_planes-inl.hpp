// SPDX-License-Identifier: Apache-2.0
// Decodes codes of 4 bits with registers of four lanes. Included once per vector target, inside the
// files that Highway compiles for each.

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_NIBBLE_PLANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_NIBBLE_PLANES_INL_HPP
#undef EQT_CODEC_NIBBLE_PLANES_INL_HPP
#else
#define EQT_CODEC_NIBBLE_PLANES_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// This is for codes of 4 bits and registers of four lanes: one byte lookup finds the same byte of
// 16 floats.
class NibblePlanes {
 public:
  explicit NibblePlanes(const float* value) {
    const hn::Full128<std::uint8_t> d;
    alignas(16) std::uint8_t planes[4][16];
    for (std::size_t code = 0; code < 16; ++code) {
      std::uint8_t bytes[4];
      std::memcpy(bytes, value + code, 4);
      for (std::size_t k = 0; k < 4; ++k) planes[k][code] = bytes[k];
    }
    for (std::size_t k = 0; k < 4; ++k) planes_[k] = hn::Load(d, planes[k]);
  }

  // sum[32 m' ...] for the eight rows of four columns.
  HWY_INLINE void Add(const std::byte* packed, float* sum) const {
    const hn::Full128<std::uint8_t> d;
    alignas(16) static constexpr std::uint8_t kByRow[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                            2, 6, 10, 14, 3, 7, 11, 15};
    const auto bytes = hn::TableLookupBytes(
        hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(packed)), hn::Load(d, kByRow));
    AddRows<32>(hn::And(bytes, hn::Set(d, 0x0F)), sum);
    AddRows<32>(hn::ShiftRight<4>(bytes), sum + 16);
  }

  // Byte 4 m + c is the code of sum[kStride m + c].
  template <std::size_t kStride>
  HWY_INLINE void AddRows(hn::Vec<hn::Full128<std::uint8_t>> codes, float* sum) const {
    const hn::Full128<std::uint8_t> d;
    const hn::Full128<std::uint16_t> d16;
    const hn::Full128<float> df;
    const auto b0 = hn::TableLookupBytes(planes_[0], codes);
    const auto b1 = hn::TableLookupBytes(planes_[1], codes);
    const auto b2 = hn::TableLookupBytes(planes_[2], codes);
    const auto b3 = hn::TableLookupBytes(planes_[3], codes);
    const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, b0, b1));
    const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d, b2, b3));
    const auto high01 = hn::BitCast(d16, hn::InterleaveUpper(d, b0, b1));
    const auto high23 = hn::BitCast(d16, hn::InterleaveUpper(d, b2, b3));
    const auto add = [&](auto halves, float* at) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(df, at), hn::BitCast(df, halves)), df, at);
    };
    add(hn::InterleaveLower(d16, low01, low23), sum);
    add(hn::InterleaveUpper(d16, low01, low23), sum + kStride);
    add(hn::InterleaveLower(d16, high01, high23), sum + 2 * kStride);
    add(hn::InterleaveUpper(d16, high01, high23), sum + 3 * kStride);
  }

 private:
  hn::Vec<hn::Full128<std::uint8_t>> planes_[4];
};
#endif

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
