// SPDX-License-Identifier: Apache-2.0
// Canonical Huffman codes of at most 12 bits.
//
// Source   D. Huffman, 1952; lengths above 12 by package-merge (Larmore, Hirschberg 1990)
// Symbols  at most 128 level indices

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/entropy/elias.hpp"

namespace eqt::codec {

inline constexpr int kMaxHuffmanBits = 12;

/// Word length of each symbol, optimal for these counts; 0 for a symbol of count 0. A single symbol
/// gets one bit.
/// @pre lengths.size() == counts.size() <= 128
void huffman_lengths(std::span<const std::uint64_t> counts, std::span<std::uint8_t> lengths);

/// Canonical words: shorter ones first, equal lengths in symbol order, counting upwards from zero.
/// @pre words.size() == lengths.size()
void canonical_words(std::span<const std::uint8_t> lengths, std::span<CodeWord> words);

/// True if the lengths are those of a complete code, or of a single symbol of one bit.
/// huffman_lengths() makes no other tables.
bool is_huffman_table(std::span<const std::uint8_t> lengths) noexcept;

}  // namespace eqt::codec
