// SPDX-License-Identifier: Apache-2.0
// One bucket's codes by range asymmetric numeral systems (rANS), 32 states interleaved: container
// W4, within a percent of the entropy of indices and signs.
//
// Source   J. Duda, arXiv:1311.2540; F. Giesen, arXiv:1402.3392 (interleaving)
// Symbols  M = 2^P frequency total, P = 8 or 12; m indices 0 ... m - 1, m - 1 the largest that
//          occurs; f frequency and c cumulative frequency of an index; x state
// Payload  bits, most significant first: mode 0 (2 bits), whether P = 12 (1), m - 1 (4 bits; 7 for
//          P = 12); the frequencies of
//          0 ... m - 2, 8 bits each (P = 8) or delta(f + 1) (P = 12), the last one is the rest of
//          M. Unless a single index has all of M, for each of the min(32, d) states k (3 bits),
//          then the lower 23 - k bits of x, which has 24 - k. Zero bits up to a whole byte. Then
//          the states' bytes, and the signs that the states do not hold, first one in the lowest
//          bit
// Method   decoding value i, state i mod 32: its index is where x mod M lies among the c;
//          x <- f * (x / M) + x mod M - c; while x < 2^16: x <- 256 x + next byte.
//          In the end the upper part of each x is 1, and the lower 16 bits hold 16 signs
// Size     the model's cost, and about 2.5 bits per state and the frequencies
// Differs from the usual interleaving, which writes a whole state per lane: initial states hold
//          signs, and final states are written with as many bits as they have

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/entropy/code_kernels.hpp"
#include "codec/entropy/rans_kernels.hpp"

namespace eqt::codec {

/// Frequencies of the indices 0 ... symbols - 1, with sum 2^precision.
struct RansModel {
  int precision = 8;
  std::size_t symbols = 0;  // m; 0 for no codes
  std::array<std::uint16_t, kMaxLevels> frequency{};

  bool has_one_symbol() const noexcept { return frequency[symbols - 1] == 1u << precision; }
};

/// The model of these counts: frequencies count * M / d, rounded, at least 1 where the count is not
/// 0; P = 8 unless the largest index is above 15 or 12 is shorter by 1/256.
/// @pre their sum is d >= 1
RansModel rans_model(const IndexCounts& counts);

/// The model of P = 8, which every vector kernel decodes. @pre as rans_model(), of at most
/// kRansVectorSymbols indices
RansModel rans_narrow_model(const IndexCounts& counts);

/// Expected length of rans_write()'s result [bits].
std::uint64_t rans_bits(const RansModel& model, const IndexCounts& counts);

/// Upper bound of rans_write()'s result for `count` codes of `symbols` indices [bytes].
std::size_t rans_max_bytes(std::size_t count, std::size_t symbols) noexcept;

/// Writes the container.
/// @pre model is that of the codes; to.size() >= rans_max_bytes() of them
/// @return bytes written
std::size_t rans_write(const RansModel& model, std::span<const LevelCode> codes,
                       std::span<std::byte> to);

/// Reads a container of codes.size() codes of indices below `symbols`.
/// @return bytes read
/// @throws Error{wire}
std::size_t rans_read(std::span<const std::byte> from, std::size_t symbols,
                      std::span<LevelCode> codes);

/// Bytes that any states hold.
inline constexpr std::size_t kRansHeldBytes = 2 * kRansLanes;

/// Bytes that the states of a container of `count` codes hold: two each, or none if the model has a
/// single index, which needs no states.
std::size_t rans_held_bytes(const RansModel& model, std::size_t count) noexcept;

/// Writes a container without its signs, whose states hold other bytes instead.
/// @param held what the states hold, rans_held_bytes() of it; the rest is not read
/// @pre as rans_write(); no code has a sign
/// @return bytes written
std::size_t rans_write_indices(const RansModel& model, std::span<const LevelCode> codes,
                               std::span<const std::byte, kRansHeldBytes> held,
                               std::span<std::byte> to);

struct RansRead {
  std::size_t bytes = 0;  // of the container
  std::size_t held = 0;   // bytes that its states held
};

/// Reads a container that rans_write_indices() wrote.
/// @param held gets what the states held
/// @throws Error{wire}
RansRead rans_read_indices(std::span<const std::byte> from, std::size_t symbols,
                           std::span<LevelCode> codes, std::span<std::byte, kRansHeldBytes> held);

}  // namespace eqt::codec
