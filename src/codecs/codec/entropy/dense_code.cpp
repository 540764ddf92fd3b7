// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/dense_code.hpp"

#include <algorithm>

#include "codec/bytes.hpp"
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

void DenseEncoder::rebuild(const DenseCode& code, std::size_t symbols, std::size_t count) {
  code_ = code;
  // Two pairs must fit between two flushes.
  paired_ = symbols <= 8 && code.longest <= 14 && count >= 4 * pairs_.size();
  if (!paired_) return;
  const auto word_of = [&](std::size_t nibble) {
    return code.words[(nibble & 8) << 4 | (nibble & 7)];
  };
  for (std::size_t pair = 0; pair < pairs_.size(); ++pair) {
    const DenseCode::Word a = word_of(pair & 15), b = word_of(pair >> 4);
    pairs_[pair] = {a.bits << b.length | b.bits, a.length + b.length};
  }
}

std::size_t DenseEncoder::write_pairs(std::span<const LevelCode> codes, BitWriter& writer) const {
  BitWriter local = writer;  // a copy: bytes that are stored may change no member of it
  std::size_t i = 0;
  for (; i + 4 <= codes.size(); i += 4) {
    const auto four = load<std::uint32_t>(reinterpret_cast<const std::byte*>(codes.data() + i));
    const std::uint32_t nibbles = (four & 0x07070707u) | (four >> 4 & 0x08080808u);
    const std::uint32_t pairs = nibbles | nibbles >> 4;
    const DenseCode::Word a = pairs_[pairs & 0xFF], b = pairs_[pairs >> 16 & 0xFF];
    local.append(a.bits, static_cast<int>(a.length));
    local.append(b.bits, static_cast<int>(b.length));
    local.flush();
  }
  writer = local;
  return i;
}

void DenseEncoder::write(std::span<const LevelCode> codes, BitWriter& writer) const {
  const auto append = [&](LevelCode c) {
    const DenseCode::Word word = code_.words[c];
    writer.append(word.bits, static_cast<int>(word.length));
  };
  std::size_t i = paired_ ? write_pairs(codes, writer) : 0;
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

void DenseDecoder::rebuild(const DenseCode& code, std::size_t count) {
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
  several_.clear();
  if (count >= kWorthwhile) join();
}

DenseDecoder::Several DenseDecoder::single(std::size_t window) const {
  const Entry entry = longest_ <= kWindowBits ? entries_[window >> (kWindowBits - longest_)]
                                              : entries_[window << (longest_ - kWindowBits)];
  if (entry.length == 0 || entry.length > kWindowBits) return {};
  return {entry.code, 1, entry.length};
}

// One word of each window, then two, then up to four.
void DenseDecoder::join() {
  constexpr std::size_t kWindows = std::size_t{1} << kWindowBits;
  thread_local std::array<Several, kWindows> ones, twos;
  const auto joined = [](const Several& a, const Several& b) -> Several {
    return {a.codes | b.codes << (8 * a.count), static_cast<std::uint16_t>(a.count + b.count),
            static_cast<std::uint16_t>(a.length + b.length)};
  };
  for (std::size_t window = 0; window < kWindows; ++window) ones[window] = single(window);
  for (std::size_t window = 0; window < kWindows; ++window) {
    const Several& a = ones[window];
    const Several& b = ones[window << a.length & (kWindows - 1)];
    const bool fits = a.count != 0 && b.count != 0 && a.length + b.length <= kWindowBits;
    twos[window] = fits ? joined(a, b) : a;
  }
  several_.resize(kWindows);
  for (std::size_t window = 0; window < kWindows; ++window) {
    const Several& a = twos[window];
    const std::size_t rest = window << a.length & (kWindows - 1);
    const bool two_fit = a.length + twos[rest].length <= kWindowBits;
    const Several& b = two_fit ? twos[rest] : ones[rest];
    const bool fits = a.count == 2 && b.count != 0 && a.length + b.length <= kWindowBits;
    several_[window] = fits ? joined(a, b) : a;
  }
}

std::size_t DenseDecoder::read_several(BitReader& reader, std::span<LevelCode> codes) const {
  constexpr std::size_t kLookups = 57 / kWindowBits;
  // Copies, because codes are bytes, whose stores may change any member.
  const Several* const several = several_.data();
  BitReader local = reader;
  std::byte* const to = reinterpret_cast<std::byte*>(codes.data());
  const std::size_t size = codes.size();
  std::size_t i = 0;
  while (i + 4 * kLookups <= size) {
    std::uint64_t window = local.window();
    int used = 0;
    for (std::size_t k = 0; k < kLookups; ++k) {
      // No word matches the window: count and length are 0, and stay 0 for the following codes.
      const Several found = several[window >> (64 - kWindowBits)];
      store(to + i, found.codes);
      i += found.count;
      window <<= found.length;
      used += found.length;
    }
    if (used == 0) read_each(local, codes.subspan(i++, 1));
    local.skip(used);
  }
  reader = local;
  return i;
}

void DenseDecoder::read(BitReader& reader, std::span<LevelCode> codes) const {
  const std::size_t done = several_.empty() ? 0 : read_several(reader, codes);
  read_each(reader, codes.subspan(done));
}

void DenseDecoder::read_each(BitReader& reader, std::span<LevelCode> codes) const {
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
