// SPDX-License-Identifier: Apache-2.0
#include "codec/rate/nested_gaps.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "codec/entropy/code_kernels.hpp"
#include "codec/sparse/gap_coding.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

using Positions = std::vector<std::uint32_t>;

constexpr unsigned kComplement = 0x80;
constexpr std::size_t kSlack = 24;  // bytes beyond the end that the writers of gaps may touch

/// Upper bound of one set of at most `count` positions [bytes].
std::size_t set_bytes(std::size_t count) {
  // At most half of the positions are coded, each with b + 1 bits and count / 2^b zeros in all; the
  // chosen b has no more bits than b = 0, which has count.
  return 5 + 1 + count / 8 + 2 * sizeof(std::uint64_t);
}

std::size_t write_set(const Positions& set, std::size_t count, std::byte* to) {
  std::byte* at = write_count(set.size(), to);
  if (set.empty()) return static_cast<std::size_t>(at - to);
  const bool complement = 2 * set.size() > count;
  Positions rest(complement ? count - set.size() : 0);
  const auto coded =
      complement ? absent_indices(set, count, rest) : std::span<const std::uint32_t>(set);
  const int bits = rice_bits(coded, count);
  *at++ = static_cast<std::byte>(static_cast<unsigned>(bits) | (complement ? kComplement : 0));
  at += write_remainders(coded, bits, at);
  at += write_quotients(coded, bits, at);
  return static_cast<std::size_t>(at - to);
}

[[noreturn]] void fail_short(std::string_view what) {
  fail(Kind::wire,
       "rate payload: expected {} in a block, found the end of the message; check the network and "
       "memory",
       what);
}

std::span<const std::byte> take(std::size_t bytes, std::string_view what,
                                std::span<const std::byte>& rest) {
  if (rest.size() < bytes) fail_short(what);
  const auto part = rest.first(bytes);
  rest = rest.subspan(bytes);
  return part;
}

/// Takes the bytes up to the one with the m-th bit that is 1.
std::span<const std::byte> take_quotients(std::size_t m, std::span<const std::byte>& rest) {
  constexpr std::string_view kWhat = "quotients of gaps";
  std::size_t end = 0, ones = 0;
  for (; ones < m; ++end) {
    if (end == rest.size()) fail_short(kWhat);
    ones += static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(rest[end])));
  }
  return take(end, kWhat, rest);
}

/// Takes a set of positions below `count`.
Positions take_set(std::size_t count, std::span<const std::byte>& rest) {
  const std::size_t m = take_count(rest);
  if (m > count)
    fail(Kind::wire,
         "rate payload: expected a set of at most {} positions, found {}; check the network and "
         "memory",
         count, m);
  if (m == 0) return {};
  const unsigned form = take_byte(rest);
  const bool complement = 2 * m > count;
  if (((form & kComplement) != 0) != complement || (form & ~kComplement) > kMaxRiceBits)
    fail(Kind::wire,
         "rate payload: expected a Rice parameter up to {} and the bit of {} of {} positions, "
         "found the form {}; check the network and memory",
         kMaxRiceBits, m, count, form);
  GapStreams gaps{.m = complement ? count - m : m,
                  .count = count,
                  .bits = static_cast<int>(form & ~kComplement),
                  .remainders = {},
                  .quotients = {}};
  gaps.remainders = take(field_bytes(gaps.m, gaps.bits), "remainders of gaps", rest);
  gaps.quotients = take_quotients(gaps.m, rest);
  check_gaps(gaps);
  Positions coded;
  coded.reserve(gaps.m);
  for_each_index(gaps,
                 [&](std::size_t index) { coded.push_back(static_cast<std::uint32_t>(index)); });
  if (!complement) return coded;
  Positions set(m);
  absent_indices(coded, count, set);
  return set;
}

}  // namespace

std::size_t nested_gaps_max_bytes(std::size_t count, std::uint32_t largest) noexcept {
  return largest * set_bytes(count) + count / 8 + 1 + kSlack;
}

std::size_t write_nested_gaps(std::span<const LevelCode> codes, std::uint32_t largest,
                              std::span<std::byte> to) {
  EQT_CHECK(to.size() >= nested_gaps_max_bytes(codes.size(), largest), "{} bytes for {} codes",
            to.size(), codes.size());
  if (largest == 0) return 0;
  thread_local Positions set;
  thread_local std::vector<LevelCode> signs, inner;  // these keep their memory
  set.clear();
  signs.clear();
  std::array<std::uint64_t, 64> flags;
  constexpr std::size_t kAtOnce = 64 * flags.size();
  for (std::size_t at = 0; at < codes.size(); at += kAtOnce) {
    const auto part = codes.subspan(at, std::min(kAtOnce, codes.size() - at));
    nonzero_flags(part, flags);
    for (std::size_t word = 0; 64 * word < part.size(); ++word)
      for (std::uint64_t bits = flags[word]; bits != 0; bits &= bits - 1) {
        const std::size_t i = 64 * word + static_cast<std::size_t>(std::countr_zero(bits));
        set.push_back(static_cast<std::uint32_t>(at + i));
        signs.push_back(part[i]);
      }
  }
  inner = signs;
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
  auto rest = from;
  std::fill(codes.begin(), codes.end(), LevelCode{0});
  if (largest == 0) return 0;
  const Positions all = take_set(codes.size(), rest);
  Positions places = all;
  for (const std::uint32_t place : places) codes[place] = 1;
  for (std::uint32_t j = 2; j <= largest && !places.empty(); ++j) {
    const Positions set = take_set(places.size(), rest);
    for (std::size_t i = 0; i < set.size(); ++i) {
      places[i] = places[set[i]];
      codes[places[i]] = static_cast<LevelCode>(j);
    }
    places.resize(set.size());
  }
  const auto signs = take((all.size() + 7) / 8, "signs", rest);
  for (std::size_t k = 0; k < all.size(); ++k)
    if ((std::to_integer<unsigned>(signs[k / 8]) >> k % 8 & 1) != 0) codes[all[k]] |= kSignCode;
  if (all.size() % 8 != 0 && std::to_integer<unsigned>(signs.back()) >> all.size() % 8 != 0)
    fail(
        Kind::wire,
        "rate payload: expected zero bits after {} signs, found ones; check the network and memory",
        all.size());
  return from.size() - rest.size();
}

}  // namespace eqt::codec
