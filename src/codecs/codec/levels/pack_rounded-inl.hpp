// SPDX-License-Identifier: Apache-2.0
// Rounds values to levels and packs the codes in one pass. Included once per vector target, inside
// the files that Highway compiles for each.

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codec/levels/norms-inl.hpp"
#include "codec/levels/rounder-inl.hpp"
#include "codec/prefetch.hpp"
#include "codec/unaligned-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_PACK_ROUNDED_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_PACK_ROUNDED_INL_HPP
#undef EQT_CODEC_PACK_ROUNDED_INL_HPP
#else
#define EQT_CODEC_PACK_ROUNDED_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Packs whole blocks (fixed_coding.hpp) for the widths that divide 32: every code stays in its
// lane. Signs of zeros are cleared in the packed words, so that one instruction clears 32 / kBits
// of them.
// Afterwards calls done(b, packed), so that a block's values may be changed.
template <int kBits, typename Cells, typename Done>
void QuantizeAndPackWith(const Cells& cells, const Job& job, const float* values,
                         std::size_t blocks, std::uint32_t first_word, std::byte* packed,
                         NormAccumulator& meanwhile, const Done& done) {
  const F32 d;
  const U32 du;
  constexpr std::size_t kRows = 32 / kBits;
  constexpr std::size_t kStep = std::max(kLanes * kRows, kSquareSums);
  constexpr std::uint32_t kIndices = ~0u / ((1u << kBits) - 1) * ((1u << (kBits - 1)) - 1);
  const auto indices = hn::Set(du, kIndices);
  for (std::size_t b = 0; b < blocks; ++b, values += 16 * kRows, packed += 64) {
    prefetch_output(packed);
    const auto block_word = first_word + static_cast<std::uint32_t>(b * kRows * 4);
    for (std::size_t column = 0; column < 16; column += kLanes) {
      if (column * kRows % kStep == 0) meanwhile.Step(kStep);
      Rounder<kBits, Cells> rounder(cells, job, block_word + static_cast<std::uint32_t>(column));
      auto words = hn::Zero(du);
      const auto add = [&](hn::Vec<F32> v, hn::Vec<U32> rounded)
                           HWY_ATTR { words = Prepend<kBits>(WithSign(rounded, v), words); };
#pragma GCC unroll 4
      for (std::size_t row = 0; row < kRows; row += 4) {
        const float* from = values + 16 * row + column;
        const auto v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + 16);
        const auto v2 = hn::LoadU(d, from + 32), v3 = hn::LoadU(d, from + 48);
        rounder.Draw();
        add(v0, rounder.template Round<0>(v0));
        add(v1, rounder.template Round<1>(v1));
        add(v2, rounder.template Round<2>(v2));
        add(v3, rounder.template Round<3>(v3));
      }
      const auto index = hn::And(words, indices);
      const auto nonzero = hn::AndNot(indices, hn::Add(index, indices));
      store_bytes(hn::OrAnd(index, words, nonzero), du, packed + 4 * column);
    }
    done(b, packed);
  }
}

}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // guard
