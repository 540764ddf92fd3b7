// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/level_usage.hpp"

namespace eqt::codec {

std::unique_ptr<LevelUsage> LevelUsage::of(const Compressor& compressor) {
  const LevelRounding* const rounding = compressor.level_rounding();
  if (rounding == nullptr) return nullptr;
  return std::unique_ptr<LevelUsage>(new LevelUsage(*rounding));
}

void LevelUsage::add(std::span<const float> values, const EncodeContext& context) {
  rounding_.count_codes(values, context, workspace_, counts_);
}

std::vector<std::uint64_t> LevelUsage::counts() const {
  std::vector<std::uint64_t> counts(2 * levels_ + 1);
  for (std::size_t level = 0; level <= levels_; ++level) {
    counts[levels_ + level] = counts_[level];
    if (level > 0) counts[levels_ - level] = counts_[kSignCode + level];
  }
  return counts;
}

}  // namespace eqt::codec
