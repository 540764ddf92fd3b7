// SPDX-License-Identifier: Apache-2.0
// The passes over values and codes that determine a quantizer's speed: norms and rounding, whole
// buckets to payload bytes, without and with error feedback, and whole blocks of fixed coding
// (fixed_coding.hpp has their layout): packing, and adding decoded values to sums.
// Compiled once per instruction set and chosen at run time. The bits are the same on every
// instruction set: fp32 or fp64 operations in a stated order, never fused unless the product is
// exact.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/levels/fixed_coding.hpp"
#include "codec/levels/level_table.hpp"
#include "codec/levels/with_width.hpp"
#include "codec/options.hpp"
#include "core/random.hpp"

namespace eqt::codec {

inline constexpr std::size_t kSquareSums = 32;

/// Sum of squares in fp64: 32 partial sums, value i into sum i mod 32 in order; then s_k += s_(k+w)
/// for w = 16, 8, 4, 2, 1. Not finite exactly if a value is not.
double sum_of_squares(std::span<const float> values);

/// The largest |v| as the bits of a float; above 0x7F7FFFFF exactly if a value is not finite.
std::uint32_t largest_magnitude_bits(std::span<const float> values);

/// Four values 16 apart share a random word: value i of a bucket takes
/// product(first_word + 16 (i / 64) + i mod 16) times the multiplier of row (i / 16) mod 4, all
/// modulo 2^32. The multipliers are powers of one number, chosen so that each pair of the four
/// words fills the unit square as evenly as 2^32 points can (the shortest vectors of the lattices
/// {(h, c^k h)}, k = 1, 2, 3, are within 6 % of the longest possible ones).
inline constexpr std::uint32_t kRowFactor = 0x45108B7Du;
inline constexpr std::array<std::uint32_t, 4> kRowMultiplier = {
    1, kRowFactor, kRowFactor* kRowFactor, kRowFactor* kRowFactor* kRowFactor};

/// Stochastic rounding between levels: codes[i] for values[i] of one bucket. With b = table.bits,
/// r = |v| * inverse and f = offset_j + slope_j * r for its cell j (both fp32; uniform tables:
/// `inverse` is n / norm and f = r), and the random word h,
///   index = (trunc(f * 2^(32-b)) + (h >> b)) >> (32 - b).
/// Powers of two, with R = 2^n r: bits(R + max(R, 2)) * 2^(9-b) modulo 2^32 replaces trunc().
/// @pre f <= n for every value; codes.size() == values.size()
void quantize(std::span<const float> values, float inverse, const LevelTable& table,
              const RandomStream& stream, std::uint32_t first_word, std::span<LevelCode> codes);

/// quantize() and pack_fixed() of whole blocks in one pass.
/// @pre table.bits is 2, 4 or 8; values.size() is a multiple of block_values(table.bits);
/// packed.size() == fixed_bytes(values.size(), table.bits)
void quantize_and_pack(std::span<const float> values, float inverse, const LevelTable& table,
                       const RandomStream& stream, std::uint32_t first_word,
                       std::span<std::byte> packed);

inline constexpr std::size_t kMaxBlockValues = 512;

/// @pre codes.size() is a multiple of block_values(bits); packed.size() == fixed_bytes of it
void pack_blocks(std::span<const LevelCode> codes, int bits, std::span<std::byte> packed);

/// add_fixed() for whole blocks.
void add_blocks(std::span<const PackedBucket> buckets, int bits, std::span<float> sum);

/// sum[i] += value[codes[i]], where value[kSignCode + index] is -value[index].
/// @param bits of a code: indices are below 2^(bits-1)
/// @pre codes.size() == sum.size()
void add_codes(std::span<const LevelCode> codes, int bits, const float (&value)[256],
               std::span<float> sum);

struct EncodedBuckets {
  std::size_t values = 0;
  std::size_t bytes = 0;
  std::size_t compensated = 0;  // of encode_buckets_with_feedback()
};

/// The payload of level_codec.hpp for whole buckets with fixed coding, up to the first bucket with
/// a value that is not finite, or with a norm that is neither 0 nor within kSmallNorm to kLargeNorm
/// (bucket_scale.hpp).
/// @pre table.bits is 2, 4 or 8; bucket_size is a multiple of block_values(table.bits) and divides
/// values.size(); payload has room for them
EncodedBuckets encode_buckets(std::span<const float> values, std::size_t bucket_size, Norm norm,
                              const LevelTable& table, const RandomStream& stream,
                              std::uint32_t first_word, std::span<std::byte> payload);

/// encode_buckets() of gradient + residual, which leaves in `residual` what is not sent. It stops
/// like encode_buckets(), and then has added the gradient to the residuals of up to two buckets
/// more: to the first EncodedBuckets::compensated residuals. `compensated` of them have it already.
/// @pre as encode_buckets(); residual.size() == gradient.size(); bucket_size divides compensated
EncodedBuckets encode_buckets_with_feedback(std::span<const float> gradient,
                                            std::span<float> residual, std::size_t compensated,
                                            std::size_t bucket_size, Norm norm,
                                            const LevelTable& table, const RandomStream& stream,
                                            std::uint32_t first_word, std::span<std::byte> payload);

}  // namespace eqt::codec
