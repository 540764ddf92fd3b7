// SPDX-License-Identifier: Apache-2.0
// The values of a sparse payload: float32, halves under a common power of two, or signs and indices
// of a few magnitudes, which are such halves.
//
// Source   IEEE 754-2019, binary32 and binary16; magnitudes.hpp
// Symbols  v the k values, L the largest magnitude, w bits of a value, c = 2^(w-1) magnitudes m
// Payload  32 bits: the values as float32. 16 bits: exponent e, int16, then binary16 h with
//          v = h 2^e. 2^(e+14) <= L < 2^(e+15), e = 0 if L = 0; so values of any size do not
//          overflow. Rounding is to nearest, ties to even, but never up to 2^15. 1 to 8 bits: the
//          magnitudes m in ascending order, as values of 16 bits, all c of them or m_0 and m_(c-1),
//          between which the others are spread; then k fields of w bits: the index of a
//          magnitude, and above it the sign
// Form     a byte: w, plus 0x40 if there are only m_0 and m_(c-1), never with w <= 2 and always
//          with w >= 5. With w 3 or 4 the encoder sends all c if k >= 64 c. Where 32 or 16 bits
//          take no more bytes it sends those, 32 rather than 16
// Size     4 k, 2 + 2 k, or 2 + 2 c + ceil(k w / 8) bytes, with 2 instead of c for m_0 and m_(c-1)
// Error 16 bits: |out - in| <= max(2^-11 |in|, 2^(e-25)): 11 significant bits for |in| >= 2^-28 L
//          1 to 8 bits: that of the nearest magnitude; never more than |in|^2 - L^2 / k in all, up
//          to rounding of halves

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "codec/sparse/magnitudes.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

/// Returns true for 1 to 8, 16 and 32, the bits that a value may have.
constexpr bool is_value_bits(int bits) {
  return (bits >= 1 && bits <= kMostFewBits) || bits == 16 || bits == 32;
}

/// Returns `bits`.
/// @throws Error{usage} unless is_value_bits(bits); the message names the compressor
int checked_value_bits(int bits, std::string_view compressor);

/// Returns an upper bound of |out - in|^2 / |in|^2 of values of 16 or 32 bits.
inline double rounding_variance(int bits) { return bits == 16 ? 0x1p-22 : 0; }

/// Returns an upper bound of |out - in|^2 / |in|^2 where the largest of `count` values, or random
/// ones, are sent with 1 to 8 bits and the others are left out. Of k values that are sent, at least
/// 1 / k of the squares arrives; one bit reaches that if one value is far above all others.
inline double few_bits_variance(std::size_t count) {
  return 1 - (1 - 0x1p-20) / static_cast<double>(count);
}

/// How the values of a payload are written.
struct ValueForm {
  int bits = 32;         // of a value
  bool between = false;  // only the smallest and the largest magnitude are sent

  std::uint8_t byte() const { return static_cast<std::uint8_t>(bits | (between ? 0x40 : 0)); }
  bool few() const { return bits <= kMostFewBits; }
  bool operator==(const ValueForm&) const = default;
};

/// Reads a form.
/// @throws Error{wire} unless it is one
ValueForm form_of(std::uint8_t byte);

/// A ValueCoding says how an encoder shall write values.
struct ValueCoding {
  int bits = 32;
  // With 1 to 8 bits, the values have these magnitudes, which were read from a payload of this
  // form, and keep them. Where it is null, magnitudes are fitted to the values.
  const Magnitudes* magnitudes = nullptr;
  bool between = false;
};

/// Returns the form in which k values are written.
ValueForm shortest_form(std::size_t k, const ValueCoding& coding);

/// Bytes of k values, exponent and magnitudes included.
std::size_t value_bytes(std::size_t k, ValueForm form);

/// Upper bound of the bytes of up to k values, whatever the form is [bytes].
std::size_t max_value_bytes(std::size_t k, int bits);

/// Writes value_bytes(values.size(), form) bytes.
/// @pre all values are finite; form == shortest_form(values.size(), coding)
void write_values(std::span<const float> values, const ValueCoding& coding, ValueForm form,
                  std::byte* to);

/// @throws Error{wire} unless every value is one that write_values() writes
/// @pre bytes.size() == value_bytes(k, form)
void check_values(std::span<const std::byte> bytes, std::size_t k, ValueForm form);

/// Returns the magnitudes of values of 1 to 8 bits; none for others.
/// @pre check_values(bytes, k, form) has passed
Magnitudes read_magnitudes(std::span<const std::byte> bytes, ValueForm form);

/// The values as float32, little-endian: in `bytes` if they are float32 there, else in
/// kFloat32Values (scratch.hpp).
/// @pre check_values(bytes, k, form) has passed
const std::byte* as_float32(std::span<const std::byte> bytes, std::size_t k, ValueForm form,
                            Workspace& workspace);

}  // namespace eqt::codec
