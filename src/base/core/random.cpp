// SPDX-License-Identifier: Apache-2.0
#include "core/random.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.hpp"

namespace eqt {
namespace {

__extension__ using Uint128 = unsigned __int128;  // GCC and Clang have it on every 64-bit target

std::uint64_t mixed(const RandomKey& key, std::uint32_t rank, std::uint32_t block) noexcept {
  std::uint64_t state = mix64(key.run_seed);
  state = mix64(state ^ key.step);
  state = mix64(state ^ (std::uint64_t{rank} << 32 | key.slice));
  return mix64(state ^ block);
}

}  // namespace

std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

RandomStream::RandomStream(const RandomKey& key, std::uint32_t block, const Strata* strata) noexcept
    : strata_(strata) {
  const std::uint64_t state = mixed(key, strata == nullptr ? key.rank : strata->pair(), block);
  first_ = static_cast<std::uint32_t>(state);
  second_ = static_cast<std::uint32_t>(state >> 32);
  if (strata == nullptr) return;
  // The negative product is the complement and 1, for each multiple as well.
  if (strata->is_second()) multiplier_ = 0u - multiplier_;
  constexpr auto kTogether = static_cast<std::uint64_t>(RandomPurpose::strata) << 32;
  together_ = static_cast<std::uint32_t>(mix64(mixed(key, strata->group(), block) ^ kTogether));
}

void RandomStream::copy_strata(std::uint32_t index, std::span<std::uint32_t> bases) const noexcept {
  constexpr auto kRun = static_cast<std::uint32_t>(Strata::kRun);
  for (std::size_t i = 0; i < bases.size();) {
    const std::uint32_t at = index % kRun;
    const std::size_t count = std::min<std::size_t>(kRun - at, bases.size() - i);
    std::copy_n(strata_of_run(index / kRun) + at, count, bases.data() + i);
    i += count;
    index += static_cast<std::uint32_t>(count);
  }
}

std::uint64_t RandomStream::bounded(std::uint32_t index, std::uint64_t bound) const noexcept {
  const std::uint64_t word = mix64(std::uint64_t{bits(index)} << 32 | (first_ ^ index));
  return static_cast<std::uint64_t>((static_cast<Uint128>(word) * bound) >> 64);
}

std::vector<std::size_t> random_permutation(const RandomKey& key, std::size_t count) {
  EQT_CHECK(count <= UINT32_MAX, "a permutation of {} elements", count);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const RandomStream stream(key);
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[stream.bounded(static_cast<std::uint32_t>(i), i)]);
  }
  return order;
}

}  // namespace eqt
