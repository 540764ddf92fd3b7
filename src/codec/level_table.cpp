#include "codec/level_table.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kSmallestLevel = 0x1p-60f;
constexpr int kMaxMantissaBits = 14;
constexpr std::int32_t kMaxKeys = 1 << 16;

std::int32_t float_bits(float x) { return std::bit_cast<std::int32_t>(x); }

// 2^24 / gap rounded so that gap * result >= 2^24: r = l_(j+1) is then always rounded up.
float slope_of(float gap) {
  float slope = 0x1p24f / gap;
  while (slope * gap < 0x1p24f) slope = std::nextafter(slope, kInfinity);
  return slope;
}

}  // namespace

LevelTable::LevelTable(const Levels& levels, bool is_uniform)
    : count(static_cast<int>(levels.size()) - 1), uniform(is_uniform) {
  EQT_CHECK(levels.size() >= 2 && levels.size() <= kMaxLevels, "{} levels", levels.size());
  level.fill(kInfinity);
  slope.fill(0);
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
    slope[j] = slope_of(level[j + 1] - level[j]);
  }
  build_lookup();
}

void LevelTable::build_lookup() {
  for (int bits = 0; bits <= kMaxMantissaBits; ++bits) {
    if (try_lookup(bits)) return;
  }
  fail(Kind::usage,
       "compressor.elasticity: expected neighbouring levels at least a factor "
       "1 + 2^-14 apart, found closer ones; choose fewer bits or more elastic levels");
}

bool LevelTable::try_lookup(int mantissa_bits) {
  shift = 23 - mantissa_bits;
  first_key = float_bits(level[1]) >> shift;
  const std::int32_t keys = (float_bits(1.0f) >> shift) - first_key + 1;
  if (keys > kMaxKeys) return false;
  threshold.assign(static_cast<std::size_t>(keys), kInfinity);
  base.assign(static_cast<std::size_t>(keys), 0);
  // l_n = 1 is no threshold: r = 1 belongs to the last cell.
  for (int j = 1; j < count; ++j) {
    const float bound = level[static_cast<std::size_t>(j)];
    const auto key = static_cast<std::size_t>((float_bits(bound) >> shift) - first_key);
    if (threshold[key] != kInfinity) return false;
    threshold[key] = bound;
    for (std::size_t above = key + 1; above < base.size(); ++above) base[above] = j;
  }
  return true;
}

}  // namespace eqt::codec
