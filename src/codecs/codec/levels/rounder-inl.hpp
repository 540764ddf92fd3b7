// SPDX-License-Identifier: Apache-2.0
// Rounds vectors of values to level indices, and packs the codes in one pass. Included once per
// vector target, inside the files that Highway compiles for each.

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "codec/levels/level_cells-inl.hpp"
#include "codec/levels/level_kernels.hpp"
#include "codec/levels/norms-inl.hpp"
#include "codec/prefetch.hpp"
#include "codec/vectors-inl.hpp"
#include "core/random_words-inl.hpp"

// Either both or neither is defined: the guard flips with each target.
#if defined(EQT_CODEC_ROUNDER_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef EQT_CODEC_ROUNDER_INL_HPP
#undef EQT_CODEC_ROUNDER_INL_HPP
#else
#define EQT_CODEC_ROUNDER_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using eqt::HWY_NAMESPACE::complement_if_negative;
using eqt::HWY_NAMESPACE::kRandomIndexFactor;
using eqt::HWY_NAMESPACE::random_products;
using eqt::HWY_NAMESPACE::stratified_words;

// The values that a whole bucket shares.
struct Job {
  float inverse;
  int bits;
  const RandomStream& stream;
};

// Rounds vectors of one column group: the same lanes of successive rows of 16 values. kBits: those
// of the table, or 0 if they are known only at run time. kStratified: the stream has strata.
template <int kBits, bool kStratified, typename Cells>
class Rounder {
 public:
  Rounder(const Cells& cells, const Job& job, std::uint32_t first_word)
      : cells_(cells), bits_(job.bits), second_(job.stream.second()) {
    if constexpr (kStratified) {
      multiplier_ = job.stream.multiplier();
      factor_ = job.stream.strata()->factor();
    }
    const F32 d;
    const U32 du;
    inverse_ = hn::Set(d, job.inverse);
    scaled_ = hn::Add(hn::Mul(hn::Iota(du, 0), hn::Set(du, kRandomIndexFactor)),
                      hn::Set(du, first_word * kRandomIndexFactor + job.stream.first()));
  }

  /// Computes the random words of four rows, then advances to the next four. `strata`: those of the
  /// rows' run, from this column on.
  HWY_INLINE void Draw(const std::uint32_t* strata) {
    const U32 du;
    if constexpr (kStratified) {
      word_ = random_products(du, scaled_, second_, multiplier_);
      strata_ = strata;
    } else {
      word_ = random_products(du, scaled_, second_);
    }
    scaled_ = hn::Add(scaled_, hn::Set(du, kRandomIndexFactor * 16));
  }

  /// Row kRow of four: indices in the upper `bits` bits, the fraction below.
  template <int kRow>
  HWY_INLINE hn::Vec<U32> Round(hn::Vec<F32> v) const {
    const U32 du;
    auto word = kRow == 0 ? word_ : hn::Mul(word_, hn::Set(du, kRowMultiplier[kRow]));
    if constexpr (kStratified) {
      word = stratified_words(du, word, hn::LoadU(du, strata_ + 16 * kRow), factor_);
      word = complement_if_negative(du, word, v);
    }
    const auto mapped = cells_.Map(hn::Mul(hn::Abs(v), inverse_));
    const auto fraction = kBits > 0 ? hn::ShiftRight<kBits>(word) : hn::ShiftRightSame(word, bits_);
    return hn::Add(hn::BitCast(du, mapped), fraction);
  }

 private:
  const Cells& cells_;
  int bits_;
  std::uint32_t second_;
  hn::Vec<F32> inverse_;
  hn::Vec<U32> scaled_, word_;
  // Streams without strata do not use these.
  std::uint32_t multiplier_ = 0, factor_ = 0;
  const std::uint32_t* strata_ = nullptr;
};

// The sign bit of v, above a `rounded` that has none.
HWY_INLINE hn::Vec<U32> WithSign(hn::Vec<U32> rounded, hn::Vec<F32> v) {
  const U32 du;
  const auto sign = hn::Set(du, 0x80000000u);
#if HWY_TARGET == HWY_NEON  // one instruction that Highway does not have
  return hn::Vec<U32>{vbslq_u32(sign.raw, hn::BitCast(du, v).raw, rounded.raw)};
#else
  return hn::OrAnd(rounded, hn::BitCast(du, v), sign);
#endif
}

// The upper kBits of `code`, and below them the upper bits of `words`.
template <int kBits>
HWY_INLINE hn::Vec<U32> Prepend(hn::Vec<U32> code, hn::Vec<U32> words) {
#if HWY_TARGET == HWY_NEON  // one instruction that Highway does not have
  return hn::Vec<U32>{vsriq_n_u32(code.raw, words.raw, kBits)};
#else
  return hn::OrAnd(hn::ShiftRight<kBits>(words), code, hn::Set(U32(), ~0u << (32 - kBits)));
#endif
}

// Calls `run` with whether the stream has strata, as a type.
template <typename Run>
HWY_INLINE void WithStrata(const RandomStream& stream, const Run& run) {
  if (stream.strata() != nullptr) return run(std::true_type());
  run(std::false_type());
}

// Packs whole blocks (fixed_coding.hpp) for the widths that divide 32: every code stays in its
// lane. Signs of zeros are cleared in the packed words, so that one instruction clears 32 / kBits
// of them.
// Afterwards calls done(b, packed), so that a block's values may be changed.
template <int kBits, bool kStratified, typename Cells, typename Meanwhile, typename Done>
void QuantizeAndPackWith(const Cells& cells, const Job& job, const float* values,
                         std::size_t blocks, std::uint32_t first_word, std::byte* packed,
                         Meanwhile& meanwhile, const Done& done) {
  const F32 d;
  const U32 du;
  constexpr std::size_t kRows = 32 / kBits;
  constexpr std::size_t kStep = std::max(kLanes * kRows, kSquareSums);
  constexpr std::uint32_t kIndices = ~0u / ((1u << kBits) - 1) * ((1u << (kBits - 1)) - 1);
  const auto indices = hn::Set(du, kIndices);
  for (std::size_t b = 0; b < blocks; ++b, values += 16 * kRows, packed += 64) {
    prefetch_output(packed);
    const auto block_word = first_word + static_cast<std::uint32_t>(b * kRows * 4);
    const std::uint32_t* strata[kRows / 4] = {};
    if constexpr (kStratified) {
      for (std::size_t run = 0; run < kRows / 4; ++run)
        strata[run] = job.stream.strata_of_run(block_word + static_cast<std::uint32_t>(16 * run));
    }
    for (std::size_t column = 0; column < 16; column += kLanes) {
      if (column * kRows % kStep == 0) meanwhile.Step(kStep);
      Rounder<kBits, kStratified, Cells> rounder(cells, job,
                                                 block_word + static_cast<std::uint32_t>(column));
      auto words = hn::Zero(du);
      const auto add = [&](hn::Vec<F32> v, hn::Vec<U32> rounded)
                           HWY_ATTR { words = Prepend<kBits>(WithSign(rounded, v), words); };
#pragma GCC unroll 4
      for (std::size_t row = 0; row < kRows; row += 4) {
        const float* from = values + 16 * row + column;
        const auto v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + 16);
        const auto v2 = hn::LoadU(d, from + 32), v3 = hn::LoadU(d, from + 48);
        rounder.Draw(kStratified ? strata[row / 4] + column : nullptr);
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
