// SPDX-License-Identifier: Apache-2.0
// Which exponents of a block of floats get codes of their own, for lossless coding.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/entropy/code_kernels.hpp"
#include "codec/lossless/float_planes.hpp"

namespace eqt::codec {

/// The largest exponent of a finite number.
inline constexpr std::uint8_t kMaxExponent = 254;
/// Codes that all vector kernels of rANS decode.
inline constexpr std::size_t kExponentCodes = 16;

/// Number of values with each exponent.
using ExponentCounts = std::array<std::uint32_t, 256>;
ExponentCounts count_exponents(std::span<const std::uint8_t> exponents);

/// Chooses the codes: the run of exponents that most values have, without rare ones at its ends;
/// of equals the upper one.
/// @param counts of the values without those that have the code 0, if `first` is 1
/// @param values in the block, with those
ExponentCodes choose_codes(const ExponentCounts& counts, std::size_t values, std::uint8_t first);

/// Returns how often each code occurs. @param zeros how often the code 0 does, if code.first is 1
IndexCounts code_counts(const ExponentCounts& counts, const ExponentCodes& code, std::size_t zeros);

}  // namespace eqt::codec
