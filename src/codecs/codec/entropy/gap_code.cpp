// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/gap_code.hpp"

#include <algorithm>
#include <bit>

#include "codec/entropy/elias.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr int kLengthShift = 24;  // of a packed word: its length above its bits
constexpr std::uint32_t kBitsMask = (1u << kLengthShift) - 1;

std::uint32_t packed(CodeWord word) {
  return static_cast<std::uint32_t>(word.length) << kLengthShift |
         static_cast<std::uint32_t>(word.bits);
}

CodeWord code_word(LevelCode code) {
  const CodeWord index = omega_code(code & 0x7Fu);
  return {std::uint64_t{code} >> 7 << index.length | index.bits, index.length + 1};
}

CodeWord nonzero_word(std::size_t gap, LevelCode code) {
  const CodeWord first = omega_code(gap), second = code_word(code);
  return {first.bits << second.length | second.bits, first.length + second.length};
}

// Calls visit(first index, flags of 64 codes) for all of them, the last ones padded with zeros.
template <typename Visit>
void for_each_word(std::span<const LevelCode> codes, Visit visit) {
  std::array<std::uint64_t, 64> words;
  for (std::size_t i = 0; i < codes.size(); i += 64 * words.size()) {
    const auto block = codes.subspan(i, std::min(64 * words.size(), codes.size() - i));
    nonzero_flags(block, words);
    for (std::size_t w = 0; w * 64 < block.size(); ++w) visit(i + w * 64, words[w]);
  }
}

}  // namespace

GapCode::GapCode(std::size_t symbols) : symbols_(symbols), entries_(std::size_t{1} << kWindowBits) {
  for (std::size_t index = 1; index < symbols; ++index) {
    for (const std::size_t sign : {0u, 1u}) {
      const auto code = static_cast<LevelCode>(sign * kSignCode | index);
      for (std::size_t gap = 0; gap < kShortGaps; ++gap) {
        words_[gap][code] = packed(gap == 0 ? code_word(code) : nonzero_word(gap, code));
      }
      for (std::size_t gap = 1; gap < 64; ++gap) add_entries(gap, code);
    }
  }
  pair_entries();
}

void GapCode::add_entries(std::size_t gap, LevelCode code) {
  const CodeWord word = nonzero_word(gap, code);
  const int free_bits = kWindowBits - word.length;
  if (free_bits < 0) return;
  Entry entry;
  entry.gap[0] = static_cast<std::uint8_t>(gap);
  entry.code[0] = entry.code[1] = code;
  entry.count = 1;
  entry.length = static_cast<std::uint8_t>(word.length);
  std::fill_n(entries_.begin() + static_cast<std::ptrdiff_t>(word.bits << free_bits),
              std::size_t{1} << free_bits, entry);
}

void GapCode::pair_entries() {
  const std::vector<Entry> single = entries_;
  for (std::size_t window = 0; window < single.size(); ++window) {
    Entry& entry = entries_[window];
    const Entry second = single[window << entry.length & (single.size() - 1)];
    if (entry.count == 0 || second.count == 0) continue;
    if (entry.length + second.length > kWindowBits) continue;
    entry.gap[1] = second.gap[0];
    entry.code[1] = second.code[0];
    entry.count = 2;
    entry.length = static_cast<std::uint8_t>(entry.length + second.length);
  }
}

std::uint64_t GapCode::bits_without_gaps(const IndexCounts& counts) const {
  std::uint64_t bits = 0, nonzeros = 0;
  for (std::size_t i = 1; i < symbols_; ++i) {
    nonzeros += counts[i];
    bits += counts[i] * static_cast<std::uint64_t>(omega_length(i) + 1);
  }
  return bits + static_cast<std::uint64_t>(omega_length(nonzeros + 1));
}

void GapCode::write(std::span<const LevelCode> codes, std::uint64_t nonzeros, BitWriter& to) const {
  BitWriter writer = to;  // a copy: bytes that are stored may change no member of it
  const CodeWord count = omega_code(nonzeros + 1);
  writer.put(count.bits, count.length);
  std::size_t next = 0;
  bool pending = false;  // there is a word of at most 20 bits to write
  for_each_word(codes, [&](std::size_t first, std::uint64_t flags) {
    for (; flags != 0; flags &= flags - 1) {
      const std::size_t i = first + static_cast<std::size_t>(std::countr_zero(flags));
      std::size_t gap = i + 1 - next;
      if (gap >= kShortGaps) {
        const CodeWord word = omega_code(gap);
        writer.flush();
        writer.put(word.bits, word.length);
        gap = 0;
        pending = false;
      }
      const std::uint32_t word = words_[gap][codes[i]];
      writer.append(word & kBitsMask, static_cast<int>(word >> kLengthShift));
      if (pending) writer.flush();
      pending = !pending;
      next = i + 1;
    }
  });
  writer.flush();
  to = writer;
}

std::size_t GapCode::read_one(BitReader& reader, std::size_t next,
                              std::span<LevelCode> codes) const {
  const std::uint64_t gap = read_omega(reader);
  if (gap > codes.size() - next) {
    fail(Kind::wire, "level payload: expected a gap of at most {} values, found {}",
         codes.size() - next, gap);
  }
  const auto sign = static_cast<LevelCode>(reader.take(1) << 7);
  const std::uint64_t index = read_omega(reader);
  if (index >= symbols_) {
    fail(Kind::wire, "level payload: expected a level index of at most {}, found {}", symbols_ - 1,
         index);
  }
  next += gap;
  codes[next - 1] = static_cast<LevelCode>(sign | index);
  return next;
}

void GapCode::read(BitReader& from, std::span<LevelCode> codes) const {
  const std::uint64_t nonzeros = read_omega(from) - 1;
  if (nonzeros > codes.size()) {
    fail(Kind::wire, "level payload: expected at most {} nonzero values in a bucket, found {}",
         codes.size(), nonzeros);
  }
  std::fill(codes.begin(), codes.end(), LevelCode{0});
  constexpr int kPerWindow = 57 / kWindowBits;
  std::size_t next = 0;
  std::uint64_t left = nonzeros;
  // Copies, because codes are bytes, whose stores may change any member.
  const Entry* const entries = entries_.data();
  LevelCode* const to = codes.data();
  const std::size_t size = codes.size();
  BitReader reader = from;
  while (left >= 2 * kPerWindow) {
    std::uint64_t window = reader.window();
    const std::size_t start = next;
    int used = 0;
    for (int k = 0; k < kPerWindow; ++k) {
      const Entry entry = entries[window >> (64 - kWindowBits)];
      const std::size_t first = next + entry.gap[0], second = first + entry.gap[1];
      if (entry.count == 0 || second > size) break;
      to[first - 1] = entry.code[0];
      to[second - 1] = entry.code[1];
      next = second;
      left -= entry.count;
      window <<= entry.length;
      used += entry.length;
    }
    reader.skip(used);
    if (next == start) {
      next = read_one(reader, next, codes);
      --left;
    }
  }
  for (; left > 0; --left) next = read_one(reader, next, codes);
  from = reader;
}

}  // namespace eqt::codec
