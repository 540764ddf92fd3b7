// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/nested_gaps.hpp"

#include <algorithm>
#include <bit>

#include "codec/sparse/gap_coding.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

using Positions = std::vector<std::uint32_t>;

constexpr unsigned kComplement = 0x80;
constexpr std::size_t kSlack = 24;  // bytes beyond the end that the writers of gaps may touch

/// Positions below `count` that are not in `set`.
Positions others(const Positions& set, std::size_t count) {
  Positions rest;
  rest.reserve(count - set.size());
  std::uint32_t next = 0;
  for (const std::uint32_t position : set) {
    for (; next < position; ++next) rest.push_back(next);
    next = position + 1;
  }
  for (; next < count; ++next) rest.push_back(next);
  return rest;
}

/// Upper bound of one set of at most `count` positions [bytes].
std::size_t set_bytes(std::size_t count) {
  // At most half of the positions are coded, each with b + 1 bits and count / 2^b zeros in all; the
  // chosen b has no more bits than b = 0, which has count.
  return 5 + 1 + count / 8 + 2 * sizeof(std::uint64_t);
}

std::size_t write_size(std::size_t m, std::byte* to) {
  std::size_t bytes = 0;
  for (; m >= 0x80; m >>= 7) to[bytes++] = static_cast<std::byte>(m | 0x80);
  to[bytes++] = static_cast<std::byte>(m);
  return bytes;
}

std::size_t write_set(const Positions& set, std::size_t count, std::byte* to) {
  std::size_t used = write_size(set.size(), to);
  if (set.empty()) return used;
  const bool complement = 2 * set.size() > count;
  const Positions rest = complement ? others(set, count) : Positions();
  const Positions& coded = complement ? rest : set;
  const int bits = rice_bits(coded, count);
  to[used++] = static_cast<std::byte>(static_cast<unsigned>(bits) | (complement ? kComplement : 0));
  used += write_remainders(coded, bits, to + used);
  used += write_quotients(coded, bits, to + used);
  return used;
}

[[noreturn]] void fail_short(std::string_view what) {
  fail(Kind::wire,
       "rate payload: expected {} in a block, found the end of the message; check the network and "
       "memory",
       what);
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}

  std::size_t used() const { return at_; }

  unsigned byte(std::string_view what) {
    if (at_ == from_.size()) fail_short(what);
    return std::to_integer<unsigned>(from_[at_++]);
  }

  std::span<const std::byte> bytes(std::size_t count, std::string_view what) {
    if (from_.size() - at_ < count) fail_short(what);
    const auto part = from_.subspan(at_, count);
    at_ += count;
    return part;
  }

  std::size_t size(std::size_t most) {
    std::size_t m = 0;
    for (int shift = 0;; shift += 7) {
      const unsigned next = byte("the size of a set of positions");
      m |= std::size_t{next & 0x7F} << shift;
      if (next < 0x80 && m <= most && (shift == 0 || next > 0)) return m;
      if (next < 0x80 || shift >= 28)
        fail(Kind::wire,
             "rate payload: expected a set of at most {} positions, found {}; check the network "
             "and memory",
             most, m);
    }
  }

  /// The bytes up to the one with the m-th bit that is 1.
  std::span<const std::byte> quotients(std::size_t m) {
    std::size_t end = at_, ones = 0;
    for (; ones < m; ++end) {
      if (end == from_.size()) fail_short("quotients of gaps");
      ones += static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(from_[end])));
    }
    return bytes(end - at_, "quotients of gaps");
  }

  /// Reads a set of positions below `count`.
  Positions set(std::size_t count) {
    const std::size_t m = size(count);
    if (m == 0) return {};
    const unsigned form = byte("the form of a set");
    const bool complement = 2 * m > count;
    if (((form & kComplement) != 0) != complement || (form & 0x7F) > kMaxRiceBits)
      fail(Kind::wire,
           "rate payload: expected a Rice parameter up to {} and the bit of {} of {} positions, "
           "found the form {}; check the network and memory",
           kMaxRiceBits, m, count, form);
    GapStreams gaps{.m = complement ? count - m : m,
                    .count = count,
                    .bits = static_cast<int>(form & 0x7F),
                    .remainders = {},
                    .quotients = {}};
    gaps.remainders = bytes(field_bytes(gaps.m, gaps.bits), "remainders of gaps");
    gaps.quotients = quotients(gaps.m);
    check_gaps(gaps);
    Positions coded;
    coded.reserve(gaps.m);
    for_each_index(gaps,
                   [&](std::size_t index) { coded.push_back(static_cast<std::uint32_t>(index)); });
    return complement ? others(coded, count) : coded;
  }

 private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
};

}  // namespace

std::size_t nested_gaps_max_bytes(std::size_t count, std::uint32_t largest) noexcept {
  return largest * set_bytes(count) + count / 8 + 1 + kSlack;
}

std::size_t write_nested_gaps(std::span<const LevelCode> codes, std::uint32_t largest,
                              std::span<std::byte> to) {
  EQT_CHECK(to.size() >= nested_gaps_max_bytes(codes.size(), largest), "{} bytes for {} codes",
            to.size(), codes.size());
  std::vector<LevelCode> inner;
  Positions set;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if ((codes[i] & ~kSignCode) == 0) continue;
    set.push_back(static_cast<std::uint32_t>(i));
    inner.push_back(codes[i]);
  }
  const std::vector<LevelCode> signs = inner;
  std::size_t used = write_set(set, codes.size(), to.data());
  for (std::uint32_t j = 2; j <= largest && !set.empty(); ++j) {
    const std::size_t count = inner.size();
    set.clear();
    for (std::size_t i = 0; i < count; ++i) {
      if ((inner[i] & ~kSignCode) < static_cast<int>(j)) continue;
      inner[set.size()] = inner[i];
      set.push_back(static_cast<std::uint32_t>(i));
    }
    inner.resize(set.size());
    used += write_set(set, count, to.data() + used);
  }
  const std::size_t sign_bytes = (signs.size() + 7) / 8;
  std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(used), sign_bytes, std::byte{0});
  for (std::size_t k = 0; k < signs.size(); ++k)
    if (signs[k] >= kSignCode) to[used + k / 8] |= static_cast<std::byte>(1u << k % 8);
  return used + sign_bytes;
}

std::size_t read_nested_gaps(std::span<const std::byte> from, std::uint32_t largest,
                             std::span<LevelCode> codes) {
  Reader reader(from);
  std::fill(codes.begin(), codes.end(), LevelCode{0});
  const Positions all = reader.set(codes.size());
  Positions places = all;
  for (const std::uint32_t place : places) codes[place] = 1;
  for (std::uint32_t j = 2; j <= largest && !places.empty(); ++j) {
    const Positions set = reader.set(places.size());
    for (std::size_t i = 0; i < set.size(); ++i) {
      places[i] = places[set[i]];
      codes[places[i]] = static_cast<LevelCode>(j);
    }
    places.resize(set.size());
  }
  const auto signs = reader.bytes((all.size() + 7) / 8, "signs");
  for (std::size_t k = 0; k < all.size(); ++k)
    if ((std::to_integer<unsigned>(signs[k / 8]) >> k % 8 & 1) != 0) codes[all[k]] |= kSignCode;
  if (all.size() % 8 != 0 && std::to_integer<unsigned>(signs.back()) >> all.size() % 8 != 0)
    fail(
        Kind::wire,
        "rate payload: expected zero bits after {} signs, found ones; check the network and memory",
        all.size());
  return reader.used();
}

}  // namespace eqt::codec
