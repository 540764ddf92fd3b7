// A prefix code of level codes, one word per coordinate: containers W2 and W3.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/bit_stream.hpp"
#include "codec/elias.hpp"
#include "codec/level_table.hpp"

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

void write_dense(const DenseCode& code, std::span<const LevelCode> codes, BitWriter& writer);

/// Decoder of a DenseCode: a table of all windows of its longest word.
class DenseDecoder {
 public:
  DenseDecoder() = default;
  explicit DenseDecoder(const DenseCode& code) { rebuild(code); }
  void rebuild(const DenseCode& code);

  /// Reads codes.size() words.
  /// @throws Error{wire} at bits that start no word. The caller checks reader.overrun().
  void read(BitReader& reader, std::span<LevelCode> codes) const;

 private:
  struct Entry {
    LevelCode code;
    std::uint8_t length;
  };
  std::vector<Entry> entries_;
  int longest_ = 1;
};

}  // namespace eqt::codec
