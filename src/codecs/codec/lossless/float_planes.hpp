// SPDX-License-Identifier: Apache-2.0
// Floats as planes of bytes: exponents apart from mantissas and signs, and the codes of a block's
// exponents.
//
// Method   a float of 32 bits, or a bfloat16, is rotated left by one bit. Then its highest byte is
//          the exponent, and the sign is the lowest bit. The byte below the exponent goes to the
//          upper plane. The other two bytes of a float32 go to the lower plane, little-endian

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/entropy/code_kernels.hpp"
#include "codec/levels/level_table.hpp"

namespace eqt::codec {

/// Splits bfloat16 numbers, 2 bytes each at any address. Each of the others has a byte per number.
void split_bfloats(std::span<const std::byte> bfloats, std::uint8_t* exponents, std::byte* upper);

/// Splits float32 numbers. `lower` gets two bytes per number.
void split_floats(std::span<const float> values, std::uint8_t* exponents, std::byte* upper,
                  std::byte* lower);

/// sum[i] += scale * number i, for planes of bfloat16 numbers.
void add_bfloat_planes(const std::uint8_t* exponents, const std::byte* upper, float scale,
                       std::span<float> sum);

/// sum[i] += scale * number i, for planes of float32 numbers, at any address.
void add_float_planes(const std::uint8_t* exponents, const std::byte* upper, const std::byte* lower,
                      float scale, std::span<float> sum);

/// A run of exponents: `top`, `top` - 1, ... have the codes `first`, `first` + 1, ... below
/// `escape`, which is the code of all others.
struct ExponentCodes {
  std::uint8_t top = 0, first = 0, escape = 0;
};

/// The largest exponent of a finite number.
inline constexpr std::uint8_t kMaxExponent = 254;
/// Codes that all vector kernels of rANS decode.
inline constexpr std::size_t kExponentCodes = 16;

/// Number of values with each exponent.
using ExponentCounts = std::array<std::uint32_t, 256>;

/// Chooses the codes: the run of exponents that most values have, without rare ones at its ends;
/// of equals the upper one.
/// @param counts of the values without those that have the code 0, if `first` is 1
/// @param values in the block, with those
ExponentCodes choose_codes(const ExponentCounts& counts, std::size_t values, std::uint8_t first);

/// Returns how often each code occurs. @param zeros how often the code 0 does, if code.first is 1
IndexCounts code_counts(const ExponentCounts& counts, const ExponentCodes& code, std::size_t zeros);

/// Codes of exponents. @pre codes.size() == exponents.size()
void codes_of_exponents(const ExponentCodes& code, std::span<const std::uint8_t> exponents,
                        std::span<LevelCode> codes);

/// Exponents of codes; those of codes below `first` and of escapes have no meaning.
/// @pre exponents.size() == codes.size()
void exponents_of_codes(const ExponentCodes& code, std::span<const LevelCode> codes,
                        std::span<std::uint8_t> exponents);

}  // namespace eqt::codec
