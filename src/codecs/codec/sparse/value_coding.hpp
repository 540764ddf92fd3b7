// SPDX-License-Identifier: Apache-2.0
// The values of a sparse payload: float32, or halves under a common power of two.
//
// Source   IEEE 754-2019, binary32 and binary16
// Symbols  v the values, L the largest magnitude
// Payload  32 bits: the values as float32. 16 bits: exponent e, int16, then binary16 h with
//          v = h 2^e. 2^(e+14) <= L < 2^(e+15), e = 0 if L = 0; so values of any size do not
//          overflow. Rounding is to nearest, ties to even, but never up to 2^15
// Size     4 k, or 2 + 2 k bytes
// Error 16 bits: |out - in| <= max(2^-11 |in|, 2^(e-25)): 11 significant bits for |in| >= 2^-28 L

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/workspace.hpp"

namespace eqt::codec {

/// 32 or 16.
/// @throws Error{usage} for any other number; the message names the compressor
int checked_value_bits(int bits, std::string_view compressor);

/// Returns an upper bound of |out - in|^2 / |in|^2.
inline double rounding_variance(int bits) { return bits == 16 ? 0x1p-22 : 0; }

/// Bytes of k values of `bits` bits, exponent included.
std::size_t value_bytes(std::size_t k, int bits);

/// Writes value_bytes(values.size(), bits) bytes.
/// @pre all values are finite
void write_values(std::span<const float> values, int bits, std::byte* to);

/// @throws Error{wire} unless every value is one that write_values() writes
/// @pre bytes.size() == value_bytes(k, bits)
void check_values(std::span<const std::byte> bytes, int bits);

/// The values as float32, little-endian: in `bytes` if they are float32 there, else in
/// kFloat32Values (scratch.hpp).
/// @pre check_values(bytes, bits) has passed
const std::byte* as_float32(std::span<const std::byte> bytes, int bits, Workspace& workspace);

}  // namespace eqt::codec
