// The fp32 form of a level table that the kernels read: levels, slopes, and a lookup by the leading
// bits of r for tables too long for one vector register.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/levels.hpp"

namespace eqt::codec {

inline constexpr std::size_t kMaxLevels = 128;  // l_0 ... l_127: 8 bits

/// A level index and its sign in one byte: sign << 7 | index. Index 0 has sign 0.
using LevelCode = std::uint8_t;
inline constexpr LevelCode kSignCode = 0x80;

struct LevelTable {
  /// @throws Error{usage} if fp32 cannot tell the levels apart: l_1 < 2^-60, or neighbours within a
  /// factor 1 + 2^-14
  explicit LevelTable(const Levels& levels, bool uniform);

  int count;     // n, nonzero levels
  bool uniform;  // l_j = j / n: the index is a product, no lookup
  /// l_0 ... l_n; beyond, +infinity.
  std::array<float, kMaxLevels + 16> level;
  /// slope[j] = 2^24 / (l_(j+1) - l_j), rounded up so that the top of the cell gives 2^24.
  std::array<float, kMaxLevels + 16> slope;

  /// Cell of r: key = clamp((bits(r) >> shift) - first_key, 0, keys - 1); the lower index is
  /// base[key] + (r >= threshold[key]), because a key spans at most one level.
  int shift = 0;
  std::int32_t first_key = 0;
  std::vector<float> threshold;
  std::vector<std::int32_t> base;

 private:
  void build_lookup();
  bool try_lookup(int mantissa_bits);
};

}  // namespace eqt::codec
