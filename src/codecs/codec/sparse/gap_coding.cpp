// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/gap_coding.hpp"

#include <algorithm>
#include <array>

#include "codec/bytes.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

/// Calls visit(gap) for each index.
template <typename Visit>
void for_each_gap(std::span<const std::uint32_t> indices, Visit visit) {
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    visit(index - next);
    next = index + 1;
  }
}

}  // namespace

int rice_bits(std::span<const std::uint32_t> indices, std::size_t count) {
  if (indices.empty()) return 0;
  const int highest = static_cast<int>(std::bit_width(count / indices.size())) - 1;
  const std::array<int, 3> candidates{std::max(highest - 2, 0), std::max(highest - 1, 0),
                                      std::min(highest, kMaxRiceBits)};
  std::array<std::uint64_t, 3> lengths;
  for (std::size_t c = 0; c < 3; ++c) {
    lengths[c] = indices.size() * (static_cast<std::uint64_t>(candidates[c]) + 1);
  }
  for_each_gap(indices, [&](std::uint32_t gap) {
    for (std::size_t c = 0; c < 3; ++c) lengths[c] += gap >> candidates[c];
  });
  return candidates[static_cast<std::size_t>(std::min_element(lengths.begin(), lengths.end()) -
                                             lengths.begin())];
}

std::size_t write_remainders(std::span<const std::uint32_t> indices, int bits, std::byte* to) {
  if (bits == 0) return 0;
  const std::uint32_t mask = (std::uint32_t{1} << bits) - 1;
  LowFirstWriter writer(to);
  for_each_gap(indices, [&](std::uint32_t gap) { writer.put(gap & mask, bits); });
  return writer.finish();
}

std::size_t write_quotients(std::span<const std::uint32_t> indices, int bits, std::byte* to) {
  LowFirstWriter writer(to);
  for_each_gap(indices, [&](std::uint32_t gap) {
    std::uint32_t zeros = gap >> bits;
    for (; zeros >= 32; zeros -= 32) writer.put(0, 32);
    writer.put(std::uint64_t{1} << zeros, static_cast<int>(zeros) + 1);
  });
  return writer.finish();
}

std::span<const std::uint32_t> absent_indices(std::span<const std::uint32_t> indices,
                                              std::size_t count, std::span<std::uint32_t> to) {
  std::size_t n = 0;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    for (; next < index; ++next) to[n++] = next;
    next = index + 1;
  }
  for (; next < count; ++next) to[n++] = next;
  return to.first(n);
}

std::byte* write_count(std::size_t k, std::byte* to) {
  for (; k >= 0x80; k >>= 7) store(to++, static_cast<std::uint8_t>(k | 0x80));
  store(to++, static_cast<std::uint8_t>(k));
  return to;
}

std::uint8_t take_byte(std::span<const std::byte>& rest) {
  if (rest.empty()) {
    fail(Kind::wire,
         "sparse payload: expected a number of entries and two bytes, found the payload's end; the "
         "ranks run different configs or builds");
  }
  const auto byte = load<std::uint8_t>(rest.data());
  rest = rest.subspan(1);
  return byte;
}

std::size_t take_count(std::span<const std::byte>& rest) {
  std::size_t k = 0;
  for (std::size_t i = 0; i < kMostCountBytes; ++i) {
    const std::uint8_t byte = take_byte(rest);
    k |= std::size_t{byte & 0x7Fu} << (7 * i);
    if (byte >= 0x80) continue;
    if (byte == 0 && i > 0) break;  // this number has a shorter form
    return k;
  }
  fail(Kind::wire,
       "sparse payload: expected a number of entries in its shortest form, of at most {} bytes, "
       "found another; check the network and memory",
       kMostCountBytes);
}

void fail_quotients(std::size_t expected, std::size_t found) {
  fail(Kind::wire,
       "sparse payload: expected quotients of {} gaps, found {}; check the network and memory",
       expected, found);
}

void fail_index(std::size_t entry, std::size_t count, std::uint64_t found) {
  fail(Kind::wire,
       "sparse payload: expected indices below {}, found {} at entry {}; check the network and "
       "memory",
       count, found, entry);
}

void check_gaps(const GapStreams& gaps) {
  if (!ends_in_zeros(gaps.remainders, gaps.m, gaps.bits)) {
    fail(
        Kind::wire,
        "sparse payload: expected zero bits after {} remainders, found ones; check the network and "
        "memory",
        gaps.m);
  }
  // Bounds each index before it is computed, so that no shift of a quotient overflows.
  const std::size_t longest = (gaps.m + (gaps.count >> gaps.bits)) / 8 + 1;
  if (gaps.quotients.size() > longest) {
    fail(Kind::wire,
         "sparse payload: expected at most {} bytes of quotients for {} gaps, found {}; check the "
         "network and memory",
         longest, gaps.m, gaps.quotients.size());
  }
  std::size_t ones = 0;
  for (std::size_t at = 0; at < gaps.quotients.size(); at += 8) {
    ones += static_cast<std::size_t>(std::popcount(load_word(gaps.quotients, at)));
  }
  if (ones != gaps.m) fail_quotients(gaps.m, ones);
  if (!gaps.quotients.empty() && gaps.quotients.back() == std::byte{0}) {
    fail(Kind::wire,
         "sparse payload: expected the last gap in the last byte, found a byte of zeros; check the "
         "network and memory");
  }
}

}  // namespace eqt::codec
