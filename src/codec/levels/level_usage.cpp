#include "codec/levels/level_usage.hpp"

#include <algorithm>
#include <cmath>

#include "codec/bytes.hpp"
#include "codec/levels/adaptive_codec.hpp"
#include "codec/levels/level_codec.hpp"
#include "core/error.hpp"

namespace eqt::codec {

std::vector<float> levels_of(const Compressor& compressor) {
  if (const auto* fixed = dynamic_cast<const LevelCodec*>(&compressor)) {
    const LevelTable& table = fixed->table();
    return {table.level.begin(), table.level.begin() + table.count + 1};
  }
  if (const auto* adaptive = dynamic_cast<const AdaptiveLevelCodec*>(&compressor)) {
    const Levels levels = adaptive->levels();
    std::vector<float> values(levels.size());
    std::ranges::transform(levels, values.begin(), [](double l) { return static_cast<float>(l); });
    return values;
  }
  return {};
}

LevelUsage::LevelUsage(const Compressor& compressor)
    : compressor_(compressor),
      levels_(levels_of(compressor)),
      bucket_size_(compressor.properties().granule),
      values_(levels_.size()) {
  EQT_CHECK(!levels_.empty(), "level usage of {}, which has no levels",
            codec_name(compressor.id()));
  counts_.resize(2 * levels_.size() - 1);
}

void LevelUsage::add(std::span<const float> values, EncodeContext context) {
  const std::uint64_t first = context.first_index;
  for (std::size_t start = 0; start < values.size(); start += bucket_size_) {
    context.first_index = first + start;
    add_bucket(values.subspan(start, std::min(bucket_size_, values.size() - start)), context);
  }
}

void LevelUsage::add_bucket(std::span<const float> bucket, const EncodeContext& context) {
  payload_.resize(compressor_.max_payload_bytes(bucket.size()));
  const std::size_t used = compressor_.encode(bucket, context, workspace_, payload_);
  const bool has_fingerprint = dynamic_cast<const AdaptiveLevelCodec*>(&compressor_) != nullptr;
  const float norm = load<float>(payload_.data() + (has_fingerprint ? sizeof(std::uint32_t) : 0));
  if (!std::isfinite(norm)) return;
  decoded_.assign(bucket.size(), 0.0f);
  compressor_.decode_add(std::span(payload_).first(used), 1.0f, workspace_, decoded_);
  std::ranges::transform(levels_, values_.begin(), [norm](float l) { return norm * l; });
  const std::size_t zero = levels_.size() - 1;
  for (const float v : decoded_) {
    const auto level = static_cast<std::size_t>(
        std::lower_bound(values_.begin(), values_.end(), std::abs(v)) - values_.begin());
    ++counts_[v < 0 ? zero - level : zero + level];
  }
}

}  // namespace eqt::codec
