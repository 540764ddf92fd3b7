#include "codec/dense_code.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::codec {

DenseCode::DenseCode(std::span<const CodeWord> index_words) {
  for (std::size_t i = 0; i < index_words.size(); ++i) {
    const auto bits = static_cast<std::uint32_t>(index_words[i].bits);
    const auto length = static_cast<std::uint32_t>(index_words[i].length);
    if (length == 0) continue;
    if (i == 0) {
      words[0] = {bits, length};
    } else {
      words[i] = {bits << 1, length + 1};
      words[i | kSignCode] = {bits << 1 | 1, length + 1};
    }
    longest = std::max(longest, static_cast<int>(length) + (i > 0));
  }
  EQT_CHECK(longest <= 15, "a code word of {} bits", longest);
}

void write_dense(const DenseCode& code, std::span<const LevelCode> codes, BitWriter& writer) {
  const auto append = [&](LevelCode c) {
    const DenseCode::Word word = code.words[c];
    writer.append(word.bits, static_cast<int>(word.length));
  };
  std::size_t i = 0;
  for (; i + 3 <= codes.size(); i += 3) {  // 3 x 15 bits fit between two flushes
    append(codes[i]);
    append(codes[i + 1]);
    append(codes[i + 2]);
    writer.flush();
  }
  for (; i < codes.size(); ++i) {
    append(codes[i]);
    writer.flush();
  }
}

void DenseDecoder::rebuild(const DenseCode& code) {
  longest_ = std::max(code.longest, 1);
  entries_.assign(std::size_t{1} << longest_, Entry{0, 0});
  for (std::size_t c = 0; c < code.words.size(); ++c) {
    const DenseCode::Word word = code.words[c];
    if (word.length == 0) continue;
    const int free_bits = longest_ - static_cast<int>(word.length);
    const auto first = entries_.begin() + (static_cast<std::ptrdiff_t>(word.bits) << free_bits);
    std::fill_n(first, std::size_t{1} << free_bits,
                Entry{static_cast<LevelCode>(c), static_cast<std::uint8_t>(word.length)});
  }
}

void DenseDecoder::read(BitReader& reader, std::span<LevelCode> codes) const {
  const std::size_t per_window = static_cast<std::size_t>(57 / longest_);
  const int shift = 64 - longest_;
  std::size_t i = 0;
  while (i < codes.size()) {
    std::uint64_t window = reader.window();
    const std::size_t stop = std::min(codes.size(), i + per_window);
    int used = 0;
    bool valid = true;
    for (; i < stop; ++i) {
      const Entry entry = entries_[window >> shift];
      valid = valid && entry.length != 0;
      codes[i] = entry.code;
      window <<= entry.length;
      used += entry.length;
    }
    if (!valid) {
      fail(Kind::wire, "level payload: expected a code word in the {} bits from bit {}, found none",
           per_window * static_cast<std::size_t>(longest_), reader.position());
    }
    reader.skip(used);
  }
}

}  // namespace eqt::codec
