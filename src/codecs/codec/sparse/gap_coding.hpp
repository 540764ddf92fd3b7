// SPDX-License-Identifier: Apache-2.0
// Ascending indices as Golomb-Rice coded gaps, in two streams that are fast to read.
//
// Source   S. W. Golomb, IEEE Trans. Inf. Theory 12 (1966); R. F. Rice, JPL publication 79-22
//          (1979)
// Symbols  m indices below n; gap = index - previous index - 1, the first from -1; b Rice parameter
// Payload  remainders: m fields of b bits, gap mod 2^b; quotients: for each gap its quotient by 2^b
//          in zero bits, then a one. Bit j of a stream is bit j mod 8 of byte j / 8, bit 0 the
//          least significant; each stream is padded with zero bits to a whole byte
// Size     m b and m + sum of quotients bits, at most m (b + 1) + (n - m) / 2^b; for a random set
//          within 4 % of its entropy log2 C(n, m) where m <= n / 2 (and some bytes)
// Differs from the usual order, in which quotients and remainders alternate: here the position of
//          each remainder is known, and all indices of a word of quotients can be decoded at once

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/sparse/bit_fields.hpp"

namespace eqt::codec {

inline constexpr int kMaxRiceBits = 31;

/// The Rice parameter with the fewest bits: floor(log2(mean gap)), or one or two less; the smallest
/// if several are equal. 0 for no indices.
/// @pre indices ascend strictly and are below count
int rice_bits(std::span<const std::uint32_t> indices, std::size_t count);

/// Writes the remainders.
/// @return bytes written
/// @pre `to` has room for field_bytes(m, bits) and 8 more
std::size_t write_remainders(std::span<const std::uint32_t> indices, int bits, std::byte* to);

/// Writes the quotients.
/// @return bytes written
/// @pre `to` has room for (m + count / 2^bits) / 8 + 16 bytes
std::size_t write_quotients(std::span<const std::uint32_t> indices, int bits, std::byte* to);

/// The indices below count that are not in `indices`, which ascend; they are written to `to`.
std::span<const std::uint32_t> absent_indices(std::span<const std::uint32_t> indices,
                                              std::size_t count, std::span<std::uint32_t> to);

/// Writes the number of indices, seven bits a byte, lowest first; the upper bit of a byte is set if
/// another byte follows.
/// @return the place after it
std::byte* write_count(std::size_t k, std::byte* to);
inline constexpr std::size_t kMostCountBytes = 5;

/// The inverse of write_count(), and one byte: each is taken off the front of `rest`.
/// @throws Error{wire} at the end, or at a number that is not in its shortest form
std::size_t take_count(std::span<const std::byte>& rest);
std::uint8_t take_byte(std::span<const std::byte>& rest);

/// Errors of a stream of gaps.
[[noreturn]] void fail_quotients(std::size_t expected, std::size_t found);
[[noreturn]] void fail_index(std::size_t entry, std::size_t count, std::uint64_t found);

/// Both streams of m indices below count.
struct GapStreams {
  std::size_t m = 0;
  std::size_t count = 0;
  int bits = 0;
  std::span<const std::byte> remainders;  // field_bytes(m, bits) of them
  std::span<const std::byte> quotients;
};

/// Checks sizes, padding and the number of ones, before any index is decoded.
/// @throws Error{wire}
void check_gaps(const GapStreams& gaps);

/// Calls take(index) for each index, ascending; each is below gaps.count.
/// @pre check_gaps(gaps) has passed
/// @throws Error{wire} at the first index that is too large
template <typename Take>
void for_each_index(const GapStreams& gaps, Take take) {
  const std::uint64_t mask = (std::uint64_t{1} << gaps.bits) - 1;
  const auto bits = static_cast<std::size_t>(gaps.bits);
  std::size_t i = 0;
  std::size_t field = 0;        // bit where the next remainder begins
  std::uint64_t remainder = 0;  // sum of those so far, and one for each index before this one
  for (std::size_t at = 0; at < gaps.quotients.size(); at += 8) {
    std::uint64_t word = load_word(gaps.quotients, at);
    for (; word != 0; word &= word - 1) {
      // The sum of quotients is the number of zeros so far: bit position minus ones before it.
      const auto zeros = at * 8 + static_cast<std::size_t>(std::countr_zero(word)) - i;
      remainder += load_word(gaps.remainders, field / 8) >> (field % 8) & mask;
      const std::uint64_t index = (static_cast<std::uint64_t>(zeros) << bits) + remainder + i;
      if (index >= gaps.count) [[unlikely]]
        fail_index(i, gaps.count, index);
      take(static_cast<std::size_t>(index));
      field += bits;
      ++i;
    }
  }
}

}  // namespace eqt::codec
