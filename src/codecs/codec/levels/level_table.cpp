// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/level_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSmallestLevel = 0x1p-60f;
constexpr int kMaxMantissaBits = 14;
constexpr std::int32_t kMaxKeys = 1 << 20;  // 60 octaves of 2^14
// Only the kernels of AVX2 do: with shorter registers, a lookup costs as much as three comparisons.
#if defined(__x86_64__) || defined(__i386__)
constexpr bool kUsesCellKeys = true;
#else
constexpr bool kUsesCellKeys = false;
#endif

std::int32_t float_bits(float x) { return std::bit_cast<std::int32_t>(x); }

bool are_powers(const Levels& levels) {
  double power = 1;
  for (std::size_t j = levels.size() - 1; j > 0; --j, power /= 2) {
    if (levels[j] != power) return false;
  }
  return true;
}

// With `shifted` given, each choice of the first key allows an interval of factors.
std::optional<LevelTable::CellKeys> keys_on_scale(std::span<const float> levels, float shifted) {
  const std::size_t n = levels.size() - 1;
  std::array<std::uint32_t, LevelTable::kMaxKeyedCells + 1> upper{};
  for (std::size_t j = 0; j <= n; ++j)
    upper[j] = std::bit_cast<std::uint32_t>(levels[j] + shifted) >> 16;
  const std::uint32_t range = upper[n - 1] - upper[0];
  if (range < n - 1) return {};
  const auto cells = static_cast<std::uint32_t>(n);
  // n - 2 whole keys at least, and less than n, are between those of l_0 and l_(n-1).
  const std::uint32_t least = (cells - 2) * 65536 / range;
  const std::uint32_t most = std::min(cells * 65536 / range, 65535u);
  for (std::uint32_t first = upper[0] * least >> 16; first <= upper[0] * most >> 16; ++first) {
    // The least factor that gives l_j the key first + k.
    const auto reaching = [&](std::size_t j, std::size_t k) {
      const std::uint32_t product = (first + static_cast<std::uint32_t>(k)) << 16;
      return (product + upper[j] - 1) / upper[j];
    };
    // l_n = 1 is not a bound: its key may be that of the last cell.
    std::uint32_t low = std::max(least, reaching(n, n - 1));
    std::uint32_t high = std::min(most, reaching(n, n + 1) - 1);
    for (std::size_t j = 0; j < n && low <= high; ++j) {
      low = std::max(low, reaching(j, j));
      high = std::min(high, reaching(j, j + 1) - 1);
    }
    if (low <= high)
      return LevelTable::CellKeys{
          .shifted = shifted, .factor = static_cast<std::uint16_t>(low), .first = first};
  }
  return {};
}

}  // namespace

LevelTable::LevelTable(const Levels& levels, bool is_uniform)
    : count(static_cast<int>(levels.size()) - 1),
      bits(static_cast<int>(std::bit_width(levels.size() - 1)) + 1),
      uniform(is_uniform),
      powers(!is_uniform && are_powers(levels)) {
  EQT_CHECK(levels.size() >= 2 && levels.size() <= kMaxLevels, "{} levels", levels.size());
  level.fill(kInfinity);
  slope.fill(0);
  offset.fill(0);
  for (std::size_t j = 0; j < levels.size(); ++j) level[j] = static_cast<float>(levels[j]);
  if (!(level[1] >= kSmallestLevel)) {
    fail(Kind::usage,
         "compressor.elasticity: expected a smallest level of at least 2^-60, found {}; "
         "choose levels closer to uniform",
         levels[1]);
  }
  for (std::size_t j = 0; j + 1 < levels.size(); ++j) {
    if (!(level[j] < level[j + 1])) {
      fail(Kind::usage, "compressor.elasticity: expected increasing levels, found {} before {}",
           levels[j], levels[j + 1]);
    }
  }
  draw_lines();
  build_lookup();
  if (kUsesCellKeys) cell_keys = find_cell_keys();
}

void LevelTable::draw_lines() {
  const auto n = static_cast<std::size_t>(count);
  for (std::size_t j = 0; j < n; ++j) {
    const double low = level[j], high = level[j + 1];
    slope[j] = static_cast<float>(1 / (high - low));
    offset[j] = static_cast<float>(static_cast<double>(j) - low / (high - low));
  }
  // The last line must not exceed n, so its slope is rounded until n - slope is exact.
  const int exponent = std::ilogb(std::max(slope[n - 1], static_cast<float>(n))) + 1;
  const float unit = std::ldexp(1.0f, exponent - 24);
  slope[n - 1] = std::nearbyint(slope[n - 1] / unit) * unit;
  offset[n - 1] = static_cast<float>(n) - slope[n - 1];
}

void LevelTable::build_lookup() {
  for (int mantissa_bits = 0; mantissa_bits <= kMaxMantissaBits; ++mantissa_bits) {
    if (try_lookup(mantissa_bits)) return fill_registers();
  }
  fail(Kind::usage,
       "compressor.elasticity or compressor.table: expected neighbouring levels at least a factor "
       "1 + 2^-14 apart, found closer ones; choose fewer bits or more elastic levels");
}

bool LevelTable::try_lookup(int mantissa_bits) {
  shift = 23 - mantissa_bits;
  first_key = float_bits(level[1]) >> shift;
  const std::int32_t keys = (float_bits(1.0f) >> shift) - first_key + 1;
  if (keys > kMaxKeys) return false;
  threshold.assign(static_cast<std::size_t>(keys), kInfinity);
  base.assign(static_cast<std::size_t>(keys), 0);
  // l_n = 1 is not a threshold: r = 1 belongs to the last cell.
  for (int j = 1; j < count; ++j) {
    const float bound = level[static_cast<std::size_t>(j)];
    const auto key = static_cast<std::size_t>((float_bits(bound) >> shift) - first_key);
    if (threshold[key] != kInfinity) return false;
    threshold[key] = bound;
    for (std::size_t above = key + 1; above < base.size(); ++above) base[above] = j;
  }
  return true;
}

void LevelTable::fill_registers() {
  const std::size_t keys = threshold.size();
  fits_registers = keys <= registers.threshold.size();
  if (!fits_registers) return;
  registers.least = std::bit_cast<float>(first_key << shift);
  registers.shift = shift;
  registers.threshold.fill(kInfinity);
  registers.base.fill(0);
  for (std::size_t k = 0; k < keys; ++k) {
    const std::size_t at = (static_cast<std::size_t>(first_key) + k) % 16;
    registers.threshold[at] = threshold[k];
    registers.base[at] = base[k];
  }
}

std::optional<LevelTable::CellKeys> LevelTable::find_cell_keys() const {
  if (uniform || powers || count < 2 || count > kMaxKeyedCells) return {};
  // In steps of 1/8 octave. Large enough, the scale is even on [0, 1]; far below l_1 it is that of
  // the logarithm.
  const auto levels = std::span(level).first(static_cast<std::size_t>(count) + 1);
  for (int step = 0; step < 8 * 32; ++step) {
    const float shifted = std::ldexp(1 + static_cast<float>(step % 8) / 8, 2 - step / 8);
    if (const auto keys = keys_on_scale(levels, shifted)) return keys;
  }
  return {};
}

}  // namespace eqt::codec
