// SPDX-License-Identifier: Apache-2.0
// Elias's universal codes of the integers k >= 1.
//
// Source   P. Elias, IEEE Trans. Inf. Theory 21(2), 1975; omega is the "recursive coding" of QSGD
// Order    most significant bit first; zero has no code word, callers shift by one

#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "codec/entropy/bit_stream.hpp"
#include "core/error.hpp"

namespace eqt::codec {

/// A code word in the low `length` bits.
struct CodeWord {
  std::uint64_t bits = 0;
  int length = 0;
};

/// floor(log2 k) zeros, then k in binary. k < 2^28.
constexpr CodeWord gamma_code(std::uint64_t k) noexcept {
  return {k, 2 * static_cast<int>(std::bit_width(k)) - 1};
}

/// gamma(bit width of k), then k without its leading one. k < 2^48.
constexpr CodeWord delta_code(std::uint64_t k) noexcept {
  const int low = static_cast<int>(std::bit_width(k)) - 1;
  const CodeWord width = gamma_code(static_cast<std::uint64_t>(low) + 1);
  return {width.bits << low | (k ^ (std::uint64_t{1} << low)), width.length + low};
}

/// Binary k, preceded by the binary of its bit width minus 1, and so on down to 1; then a zero.
/// k < 2^32, so at most 43 bits.
constexpr CodeWord omega_code(std::uint64_t k) noexcept {
  CodeWord word{0, 1};
  while (k > 1) {
    const int width = static_cast<int>(std::bit_width(k));
    word.bits |= k << word.length;
    word.length += width;
    k = static_cast<std::uint64_t>(width) - 1;
  }
  return word;
}

constexpr int omega_length(std::uint64_t k) noexcept { return omega_code(k).length; }

/// An integer and the number of its bits; length 0 if there is no code word of at most 57 bits.
struct Decoded {
  std::uint64_t value = 0;
  int length = 0;
};

/// Decoders of a window whose next bit is its most significant one; 57 bits of it are valid.
constexpr Decoded gamma_decode(std::uint64_t window) noexcept {
  const int zeros = std::countl_zero(window);
  if (2 * zeros + 1 > 57) return {};
  return {window >> (63 - 2 * zeros), 2 * zeros + 1};
}

constexpr Decoded delta_decode(std::uint64_t window) noexcept {
  const Decoded width = gamma_decode(window);
  if (width.length == 0 || width.value > 57) return {};
  const int low = static_cast<int>(width.value) - 1;
  if (width.length + low > 57) return {};
  const std::uint64_t rest = low == 0 ? 0 : (window << width.length) >> (64 - low);
  return {std::uint64_t{1} << low | rest, width.length + low};
}

constexpr Decoded omega_decode(std::uint64_t window) noexcept {
  std::uint64_t value = 1;
  int used = 0;
  while (window >> 63 != 0) {
    const int width = value > 56 ? 57 : static_cast<int>(value) + 1;
    if (used + width >= 57) return {};
    value = window >> (64 - width);
    window <<= width;
    used += width;
  }
  return {value, used + 1};
}

/// Omega words of at most 12 bits (k <= 63) by their first 12 bits.
struct OmegaTable {
  static constexpr int kBits = 12;
  struct Entry {
    std::uint8_t value = 0;
    std::uint8_t length = 0;  // 0: a longer word
  };
  std::array<Entry, 1 << kBits> entries{};

  OmegaTable() {
    for (std::uint64_t k = 1; k < 64; ++k) {
      const CodeWord word = omega_code(k);
      const int free_bits = kBits - word.length;
      for (std::uint64_t rest = 0; rest < std::uint64_t{1} << free_bits; ++rest) {
        entries[word.bits << free_bits | rest] = {static_cast<std::uint8_t>(k),
                                                  static_cast<std::uint8_t>(word.length)};
      }
    }
  }
};

namespace detail {
inline std::uint64_t take_word(BitReader& reader, const Decoded& decoded, const char* name) {
  if (decoded.length == 0) {
    fail(Kind::wire, "level payload: expected an Elias {} code at bit {}, found none", name,
         reader.position());
  }
  reader.skip(decoded.length);
  return decoded.value;
}
}  // namespace detail

/// Reads one word of at most 57 bits.
/// @throws Error{wire} if there is none
inline std::uint64_t read_gamma(BitReader& reader) {
  return detail::take_word(reader, gamma_decode(reader.window()), "gamma");
}
inline std::uint64_t read_delta(BitReader& reader) {
  return detail::take_word(reader, delta_decode(reader.window()), "delta");
}
inline std::uint64_t read_omega(BitReader& reader) {
  static const OmegaTable table;
  const std::uint64_t window = reader.window();
  const OmegaTable::Entry entry = table.entries[window >> (64 - OmegaTable::kBits)];
  if (entry.length != 0) {
    reader.skip(entry.length);
    return entry.value;
  }
  return detail::take_word(reader, omega_decode(window), "omega");
}

}  // namespace eqt::codec
