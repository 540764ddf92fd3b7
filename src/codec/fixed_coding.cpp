#include "codec/fixed_coding.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/level_kernels.hpp"
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
void pack(std::span<const LevelCode> codes, std::byte* to, std::byte* end) {
  std::size_t i = 0;
  for (; i + 8 <= codes.size() && end - to >= 8; i += 8, to += kBits) {
    store(to, merge<kBits>(load<std::uint64_t>(std::as_bytes(codes).data() + i)));
  }
  for (; i < codes.size(); i += 8, to += kBits) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes.data() + i, std::min<std::size_t>(8, codes.size() - i));
    const std::uint64_t merged = merge<kBits>(eight);
    std::memcpy(to, &merged, static_cast<std::size_t>(std::min<std::ptrdiff_t>(kBits, end - to)));
  }
}

template <int kBits>
void unpack(const std::byte* from, const std::byte* end, std::span<LevelCode> codes) {
  std::size_t i = 0;
  for (; i + 8 <= codes.size() && end - from >= 8; i += 8, from += kBits) {
    store(std::as_writable_bytes(codes).data() + i, split<kBits>(load<std::uint64_t>(from)));
  }
  for (; i < codes.size(); i += 8, from += kBits) {
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

}  // namespace

void pack_fixed(std::span<const LevelCode> codes, int bits, std::span<std::byte> packed) {
  check_sizes(packed.size(), bits, codes.size());
  std::byte* to = packed.data();
  std::byte* end = to + packed.size();
  switch (bits) {
    case 2:
      return pack<2>(codes, to, end);
    case 3:
      return pack<3>(codes, to, end);
    case 4:
      return pack_nibbles(codes, packed);
    case 5:
      return pack<5>(codes, to, end);
    case 6:
      return pack<6>(codes, to, end);
    case 7:
      return pack<7>(codes, to, end);
    default:
      return pack<8>(codes, to, end);
  }
}

void unpack_fixed(std::span<const std::byte> packed, int bits, std::span<LevelCode> codes) {
  check_sizes(packed.size(), bits, codes.size());
  const std::byte* from = packed.data();
  const std::byte* end = from + packed.size();
  switch (bits) {
    case 2:
      return unpack<2>(from, end, codes);
    case 3:
      return unpack<3>(from, end, codes);
    case 4:
      return unpack<4>(from, end, codes);
    case 5:
      return unpack<5>(from, end, codes);
    case 6:
      return unpack<6>(from, end, codes);
    case 7:
      return unpack<7>(from, end, codes);
    default:
      return unpack<8>(from, end, codes);
  }
}

}  // namespace eqt::codec
