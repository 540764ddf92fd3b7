#include "codec/levels/level_usage.hpp"

namespace eqt::codec {

std::unique_ptr<LevelUsage> LevelUsage::of(const Compressor& compressor) {
  const auto* fixed = dynamic_cast<const LevelCodec*>(&compressor);
  const auto* adaptive = dynamic_cast<const AdaptiveLevelCodec*>(&compressor);
  if (fixed == nullptr && adaptive == nullptr) return nullptr;
  const std::size_t levels = fixed != nullptr ? static_cast<std::size_t>(fixed->table().count)
                                              : adaptive->levels().size() - 1;
  return std::unique_ptr<LevelUsage>(new LevelUsage(fixed, adaptive, levels));
}

void LevelUsage::add(std::span<const float> values, const EncodeContext& context) {
  if (fixed_ != nullptr) {
    fixed_->count_codes(values, context, workspace_, counts_);
  } else {
    adaptive_->count_codes(values, context, workspace_, counts_);
  }
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
