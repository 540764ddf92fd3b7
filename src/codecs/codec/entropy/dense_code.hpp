// SPDX-License-Identifier: Apache-2.0
// A prefix code of level codes, one word per coordinate: containers W2 and W3.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/entropy/bit_stream.hpp"
#include "codec/entropy/elias.hpp"
#include "codec/levels/level_table.hpp"

namespace eqt::codec {

/// The words of level codes: a word per index and, after those of nonzero indices, the sign bit.
struct DenseCode {
  struct Word {
    std::uint32_t bits = 0;
    std::uint32_t length = 0;  // 0: no word
  };
  std::array<Word, 256> words{};  // by level code
  int longest = 0;                // [bits]

  DenseCode() = default;
  /// @param index_words word of each index; length 0 for none. At most 15 bits with the sign.
  explicit DenseCode(std::span<const CodeWord> index_words);
};

/// Writer of a DenseCode: two words at once where all indices are below 8.
class DenseEncoder {
 public:
  DenseEncoder() = default;
  /// @param count codes to be written; for few codes no table is built
  DenseEncoder(const DenseCode& code, std::size_t symbols, std::size_t count) {
    rebuild(code, symbols, count);
  }
  void rebuild(const DenseCode& code, std::size_t symbols, std::size_t count);

  void write(std::span<const LevelCode> codes, BitWriter& writer) const;

 private:
  std::size_t write_pairs(std::span<const LevelCode> codes, BitWriter& writer) const;

  DenseCode code_;
  bool paired_ = false;
  std::array<DenseCode::Word, 256> pairs_;  // by two nibbles sign << 3 | index, the first code in
                                            // the lower one
};

/// Decoder of a DenseCode: a table of all windows of its longest word, and one of windows that hold
/// up to four words.
class DenseDecoder {
 public:
  DenseDecoder() = default;
  DenseDecoder(const DenseCode& code, std::size_t count) { rebuild(code, count); }
  /// @param count codes to be read; for few codes the second table is not built
  void rebuild(const DenseCode& code, std::size_t count);

  /// Reads codes.size() words.
  /// @throws Error{wire} at bits that start no word. The caller checks reader.overrun().
  void read(BitReader& reader, std::span<LevelCode> codes) const;

 private:
  struct Entry {
    LevelCode code;
    std::uint8_t length;  // 0: no word
  };
  /// The words that are completely in the window.
  struct Several {
    std::uint32_t codes = 0;  // the first one lowest
    std::uint16_t count = 0;  // at most 4
    std::uint16_t length = 0;
  };
  static constexpr int kWindowBits = 10;
  static constexpr std::size_t kWorthwhile = 4096;  // [codes], by measurement

  void join();
  Several single(std::size_t window) const;
  void read_each(BitReader& reader, std::span<LevelCode> codes) const;
  std::size_t read_several(BitReader& reader, std::span<LevelCode> codes) const;

  std::vector<Entry> entries_;
  std::vector<Several> several_;  // empty if not worthwhile
  int longest_ = 1;
};

}  // namespace eqt::codec
