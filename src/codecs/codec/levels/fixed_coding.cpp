// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/fixed_coding.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codec/levels/level_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::uint64_t kEachByte = 0x0101010101010101u;
constexpr std::uint64_t kLowHalves[] = {0x00FF00FF00FF00FFu, 0x0000FFFF0000FFFFu,
                                        0x00000000FFFFFFFFu};

// Eight codes, one per byte, to 8 * kBits neighbouring bits; neighbours merge pairwise three times.
template <int kBits>
std::uint64_t merge(std::uint64_t codes) {
  const std::uint64_t index = codes & (kEachByte * ((1u << (kBits - 1)) - 1));
  std::uint64_t x = index | ((codes >> 7) & kEachByte) << (kBits - 1);
  for (int k = 0; k < 3; ++k) {
    x = (x & kLowHalves[k]) | ((x >> (8 << k)) & kLowHalves[k]) << (kBits << k);
  }
  return x;
}

// The inverse of merge().
template <int kBits>
std::uint64_t split(std::uint64_t x) {
  for (int k = 2; k >= 0; --k) {
    // The low (kBits << k) bits of every field of (16 << k).
    const std::uint64_t used = kLowHalves[k] & ~(kLowHalves[k] << (kBits << k));
    x = (x & used) | ((x >> (kBits << k)) & used) << (8 << k);
  }
  const std::uint64_t index = x & (kEachByte * ((1u << (kBits - 1)) - 1));
  return index | ((x >> (kBits - 1)) & kEachByte) << 7;
}

template <int kBits>
void pack_stream(std::span<const LevelCode> codes, std::byte* to, std::byte* end) {
  for (std::size_t i = 0; i < codes.size(); i += 8, to += kBits) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes.data() + i, std::min<std::size_t>(8, codes.size() - i));
    const std::uint64_t merged = merge<kBits>(eight);
    std::memcpy(to, &merged, static_cast<std::size_t>(std::min<std::ptrdiff_t>(kBits, end - to)));
  }
}

template <int kBits>
void unpack_stream(const std::byte* from, const std::byte* end, std::span<LevelCode> codes) {
  for (std::size_t i = 0; i < codes.size(); i += 8, from += kBits) {
    std::uint64_t merged = 0;
    std::memcpy(&merged, from,
                static_cast<std::size_t>(std::min<std::ptrdiff_t>(kBits, end - from)));
    const std::uint64_t eight = split<kBits>(merged);
    std::memcpy(codes.data() + i, &eight, std::min<std::size_t>(8, codes.size() - i));
  }
}

void check_sizes(std::size_t bytes, int bits, std::size_t count) {
  EQT_CHECK(bits >= 2 && bits <= 8, "codes of {} bits", bits);
  EQT_CHECK(bytes == fixed_bytes(count, bits), "{} bytes for {} codes of {} bits", bytes, count,
            bits);
}

// Values in whole blocks.
std::size_t in_blocks(std::size_t count, int bits) { return count - count % block_values(bits); }

}  // namespace

void pack_fixed(std::span<const LevelCode> codes, int bits, std::span<std::byte> packed) {
  check_sizes(packed.size(), bits, codes.size());
  const std::size_t whole = in_blocks(codes.size(), bits);
  const std::size_t bytes = fixed_bytes(whole, bits);
  pack_blocks(codes.first(whole), bits, packed.first(bytes));
  with_width(bits, [&](auto width) {
    pack_stream<width>(codes.subspan(whole), packed.data() + bytes, packed.data() + packed.size());
  });
}

void add_fixed(std::span<const PackedBucket> buckets, int bits, std::span<float> sum) {
  const std::size_t whole = in_blocks(sum.size(), bits);
  add_blocks(buckets, bits, sum.first(whole));
  const auto tail = sum.subspan(whole);
  if (tail.empty()) return;
  LevelCode codes[kMaxBlockValues];
  for (const PackedBucket& bucket : buckets) {
    const std::byte* from = bucket.packed + fixed_bytes(whole, bits);
    with_width(bits, [&](auto width) {
      unpack_stream<width>(from, from + fixed_bytes(tail.size(), bits), {codes, tail.size()});
    });
    for (std::size_t i = 0; i < tail.size(); ++i) {
      tail[i] += bucket.value[(codes[i] & 0x7F) | (codes[i] >> 7) << (bits - 1)];
    }
  }
}

}  // namespace eqt::codec
