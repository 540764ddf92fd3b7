// SPDX-License-Identifier: Apache-2.0
// The fp32 form of a level table that the kernels read: each cell as a line, and lookups of the
// cell by the leading bits of r.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codec/levels/levels.hpp"

namespace eqt::codec {

inline constexpr std::size_t kMaxLevels = 128;  // l_0 ... l_127: 8 bits

/// A level index and its sign in one byte: sign << 7 | index. Index 0 has sign 0.
using LevelCode = std::uint8_t;
inline constexpr LevelCode kSignCode = 0x80;

/// Values are rounded by f(r), a piecewise linear map from [0, 1] to [0, n] with f(l_j) = j. In
/// cell j it is offset[j] + slope[j] * r, so that f(r) - j is the probability of rounding up.
struct LevelTable {
  /// @throws Error{usage} if the levels are not distinct in fp32: l_1 < 2^-60, or neighbours within
  /// a factor 1 + 2^-14
  explicit LevelTable(const Levels& levels, bool uniform);

  int count;     // n, nonzero levels
  int bits;      // of a code: the sign and an index up to n
  bool uniform;  // l_j = j / n: f(r) = n r, no lookup
  bool powers;   // l_j = 2^(j-n): the bits of r tell f(r), no lookup
  /// l_0 ... l_n; beyond, +infinity.
  std::array<float, kMaxLevels + 16> level;
  /// Lines of the cells; f(1) is exactly n.
  std::array<float, kMaxLevels + 16> slope, offset;

  /// Cell of r: key = clamp((bits(r) >> shift) - first_key, 0, keys - 1); the cell is
  /// base[key] + (r >= threshold[key]), because a key spans at most one level.
  int shift = 0;
  std::int32_t first_key = 0;
  std::vector<float> threshold;
  std::vector<std::int32_t> base;

  /// These find the cell with at most 16 keys, which fit into vector registers: key = bits(max(r,
  /// least)) >> shift, modulo 16. `fits_registers` is true if there are at most 16.
  struct RegisterKeys {
    float least = 0;
    int shift = 0;
    std::array<float, 16> threshold;
    std::array<std::int32_t, 16> base;
  };
  bool fits_registers = false;
  RegisterKeys registers;

  /// A key for each cell, for levels that are about even on the scale of log(r + shifted): the
  /// upper 16 bits of bits(r + shifted), times factor / 2^16, rounded down. It grows with r and is
  /// first + j at l_j, so a value with this key is in cell j, or below l_j and in cell j - 1.
  struct CellKeys {
    float shifted = 0;
    std::uint16_t factor = 0;
    std::uint32_t first = 0;
  };
  static constexpr int kMaxKeyedCells = 7;  // and the key of 1: 8 keys
  /// Empty for uniform levels, powers, more cells, and levels that are even on no such scale; and
  /// on processors other than x86, where nothing uses it.
  std::optional<CellKeys> cell_keys;

  /// Returns what cell_keys is on x86.
  std::optional<CellKeys> find_cell_keys() const;

 private:
  void draw_lines();
  void build_lookup();
  bool try_lookup(int mantissa_bits);
  void fill_registers();
};

}  // namespace eqt::codec
