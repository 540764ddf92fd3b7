// SPDX-License-Identifier: Apache-2.0
// The inner loops of rANS over 32 interleaved states: one code of each state per step.
//
// Source   J. Duda, arXiv:1311.2540 (range variant of asymmetric numeral systems); interleaved as
//          in F. Giesen, arXiv:1402.3392
// Symbols  x state, 2^16 <= x < 2^24; f frequency and c cumulative frequency of an index, of M =
// 2^P

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/levels/level_table.hpp"

namespace eqt::codec {

inline constexpr std::size_t kRansLanes = 32;
inline constexpr int kRansLowBits = 16;   // states are at least 2^16,
inline constexpr int kRansHighBits = 24;  // and below 2^24
using RansStates = std::array<std::uint32_t, kRansLanes>;

/// The vector code handles at most this many indices (one register of constants), with P = 8.
inline constexpr std::size_t kRansVectorSymbols = 16;

/// The encoder's table by level index.
struct RansEncoderTables {
  int precision = 8;                                     // P: 8 or 12
  std::array<std::uint32_t, kMaxLevels> frequency{};     // f < 2^P
  std::array<std::uint32_t, kMaxLevels> start{};         // c
  std::array<std::uint64_t, kMaxLevels> reciprocal40{};  // ceil(2^40 / f)
  // For P = 8: x / f = x * ceil(2^32 / f) >> 32, exactly for x < f * 2^16. For f = 1 it is 2^32 -
  // 1, which gives x - 1; the bias corrects that.
  alignas(64) std::array<std::uint32_t, kRansVectorSymbols> limit{};  // f * 2^16
  alignas(64) std::array<std::uint32_t, kRansVectorSymbols> reciprocal32{};
  alignas(64) std::array<std::uint32_t, kRansVectorSymbols> bias{};
  alignas(64) std::array<std::uint32_t, kRansVectorSymbols> complement{};  // 256 - f
};

/// @param frequencies of the indices 0 ... m - 1, each below 2^precision; their sum is 2^precision
RansEncoderTables rans_encoder_tables(std::span<const std::uint16_t> frequencies, int precision);

/// The decoder's table by the low P bits of a state.
struct RansDecoderTables {
  int precision = 8;
  // P = 8: tables of bytes, for registers. P = 12: packed as index << 24 | f << 12 | x mod M - c.
  alignas(64) std::array<std::uint8_t, 256> frequency;
  alignas(64) std::array<std::uint8_t, 256> offset;
  alignas(64) std::array<std::uint8_t, 256> index;
  std::array<std::uint32_t, 4096> packed;
  // P = 8: frequencies and cumulative frequencies by index.
  std::size_t symbols = 0;
  std::array<std::uint32_t, kRansVectorSymbols> frequencies;
  std::array<std::int32_t, kRansVectorSymbols> starts;
};

/// Fills the decoder's tables from the arguments of rans_encoder_tables(). `tables` may hold those
/// of another stream.
void rans_decoder_tables(std::span<const std::uint16_t> frequencies, int precision,
                         RansDecoderTables& tables);

/// Encodes codes without their signs, from the last one to the first, code i into state i mod 32.
/// Writes the bytes before `end`, where there must be room for two per code.
/// @return the first byte, where a decoder starts
std::byte* rans_encode(const RansEncoderTables& tables, std::span<const LevelCode> codes,
                       RansStates& states, std::byte* end);

/// Decodes codes.size() codes without signs. Beyond the end of `from` it reads zeros.
/// @pre states are in their range
/// @return bytes used; more than from.size() if it went beyond
std::size_t rans_decode(const RansDecoderTables& tables, std::span<const std::byte> from,
                        RansStates& states, std::span<LevelCode> codes);

}  // namespace eqt::codec
