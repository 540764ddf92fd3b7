// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/entropy_coding.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "codec/entropy/code_kernels.hpp"
#include "codec/entropy/huffman.hpp"
#include "codec/entropy/rans.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

enum Mode : std::uint64_t { kRans = 0, kSparse = 1, kDense = 2, kHuffman = 3 };
constexpr int kModeBits = 2;
constexpr int kLengthBits = 4;
// rANS is not tried if it is expected to be longer by this many bits: the final states vary by
// less.
constexpr std::uint64_t kRansSpread = 128;
constexpr std::uint64_t kNotAllowed = std::numeric_limits<std::uint64_t>::max() / 2;

std::array<CodeWord, kMaxLevels> omega_words(std::size_t symbols) {
  std::array<CodeWord, kMaxLevels> words{};
  for (std::size_t i = 0; i < symbols; ++i) words[i] = omega_code(i + 1);
  return words;
}

DenseCode huffman_code(std::span<const std::uint8_t> lengths) {
  std::array<CodeWord, kMaxLevels> words{};
  canonical_words(lengths, std::span(words).first(lengths.size()));
  return DenseCode(std::span<const CodeWord>(words).first(lengths.size()));
}

void read_huffman(BitReader& reader, std::size_t symbols, std::span<LevelCode> codes) {
  std::array<std::uint8_t, kMaxLevels> all{};
  const auto lengths = std::span(all).first(symbols);
  for (std::uint8_t& length : lengths) length = static_cast<std::uint8_t>(reader.take(kLengthBits));
  if (!is_huffman_table(lengths)) {
    fail(Kind::wire,
         "level payload: expected the word lengths of a complete Huffman code of at most "
         "{} bits, found others before bit {}",
         kMaxHuffmanBits, reader.position());
  }
  thread_local DenseDecoder decoder;  // keeps its table's memory
  decoder.rebuild(huffman_code(lengths), codes.size());
  decoder.read(reader, codes);
}

}  // namespace

EntropyCoding::EntropyCoding(Coding coding, int level_count)
    : coding_(coding),
      symbols_(static_cast<std::size_t>(level_count) + 1),
      omega_(std::span<const CodeWord>(omega_words(symbols_)).first(symbols_)),
      omega_encoder_(omega_, symbols_, SIZE_MAX),
      omega_decoder_(omega_, SIZE_MAX),
      gaps_(symbols_) {
  EQT_CHECK(coding != Coding::fixed && symbols_ <= kMaxLevels, "coding {} of {} indices",
            static_cast<int>(coding), symbols_);
}

std::size_t EntropyCoding::max_bytes(std::size_t count) const noexcept {
  // W2 spends at most its longest word on each value. An optimal Huffman code is no longer than the
  // code of equal lengths, so W3 spends at most the table and that length plus a sign.
  const auto dense = kModeBits + count * static_cast<std::size_t>(omega_.longest);
  const auto huffman = kModeBits + symbols_ * kLengthBits +
                       count * (static_cast<std::size_t>(std::bit_width(symbols_ - 1)) + 1);
  std::size_t bits = kNotAllowed;
  if (allows_elias()) bits = dense;
  if (allows_huffman()) bits = std::min(bits, huffman);
  // rANS knows its length only after writing.
  const std::size_t rans = allows_rans() ? rans_max_bytes(count, symbols_) : 0;
  return bits == kNotAllowed ? rans : std::max((bits + 7) / 8, rans);
}

EntropyCoding::Plan EntropyCoding::cheapest(std::span<const LevelCode> codes,
                                            const IndexCounts& counts) const {
  const std::uint64_t nonzeros = codes.size() - counts[0];
  Plan plan{.mode = kRans, .bits = kNotAllowed, .lengths = {}};
  if (allows_huffman()) {
    const auto lengths = std::span(plan.lengths).first(symbols_);
    huffman_lengths(std::span(counts).first(symbols_), lengths);
    plan.mode = kHuffman;
    plan.bits = kModeBits + nonzeros + symbols_ * kLengthBits;
    for (std::size_t i = 0; i < symbols_; ++i) plan.bits += counts[i] * lengths[i];
  }
  if (allows_elias()) {
    std::uint64_t dense = kModeBits;
    for (std::size_t i = 0; i < symbols_; ++i) dense += counts[i] * omega_.words[i].length;
    if (dense <= plan.bits) {
      plan.bits = dense;
      plan.mode = kDense;
    }
    // Each gap takes at least one bit. That lower bound often decides without computing the gaps.
    const std::uint64_t sparse = kModeBits + gaps_.bits_without_gaps(counts);
    if (sparse + nonzeros <= plan.bits) {
      const std::uint64_t exact = sparse + gap_bits(codes);
      if (exact <= plan.bits) {
        plan.bits = exact;
        plan.mode = kSparse;
      }
    }
  }
  return plan;
}

std::size_t EntropyCoding::encode(std::span<const LevelCode> codes, std::span<std::byte> to) const {
  return encode(codes, count_indices(codes, symbols_), to);
}

std::size_t EntropyCoding::encode(std::span<const LevelCode> codes, const IndexCounts& counts,
                                  std::span<std::byte> to) const {
  const Plan plan = cheapest(codes, counts);
  if (allows_rans()) {
    const RansModel model = rans_model(counts);
    if (plan.bits == kNotAllowed || rans_bits(model, counts) < plan.bits + kRansSpread) {
      const std::size_t bytes = rans_write(model, codes, to);
      if (bytes < (plan.bits + 7) / 8) return bytes;
    }
  }
  BitWriter writer(to);
  writer.put(plan.mode, kModeBits);
  if (plan.mode == kSparse) {
    gaps_.write(codes, codes.size() - counts[0], writer);
  } else if (plan.mode == kDense) {
    omega_encoder_.write(codes, writer);
  } else {
    const auto lengths = std::span(plan.lengths).first(symbols_);
    for (const std::uint8_t length : lengths) writer.put(length, kLengthBits);
    DenseEncoder(huffman_code(lengths), symbols_, codes.size()).write(codes, writer);
  }
  return writer.finish();
}

std::size_t EntropyCoding::decode(std::span<const std::byte> from,
                                  std::span<LevelCode> codes) const {
  BitReader reader(from);
  const std::uint64_t mode = reader.take(kModeBits);
  if (mode == kRans && allows_rans()) return rans_read(from, symbols_, codes);
  if (mode == kSparse && allows_elias()) {
    gaps_.read(reader, codes);
  } else if (mode == kDense && allows_elias()) {
    omega_decoder_.read(reader, codes);
  } else if (mode == kHuffman && allows_huffman()) {
    read_huffman(reader, symbols_, codes);
  } else {
    fail(Kind::wire,
         "level payload: expected a container that this coding allows, found mode {}; "
         "the ranks run different configs",
         mode);
  }
  return reader.finish();
}

}  // namespace eqt::codec
