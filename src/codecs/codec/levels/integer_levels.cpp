// SPDX-License-Identifier: Apache-2.0
// Integer codes for uniform levels under the maximum norm (qsgd-v): a code is the signed index.

#include <algorithm>
#include <bit>

#include "codec/finite.hpp"
#include "codec/integer/integer_codec.hpp"
#include "codec/integer/integer_kernels.hpp"
#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/level_codec.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kBlock = 1024;  // values scaled at a time; a multiple of kPartGranule

class IntegerLevels final : public IntegerCodec {
 public:
  IntegerLevels(CodecId id, std::uint8_t format_version, std::size_t bucket_size,
                const LevelTable& table)
      : id_(id), format_version_(format_version), bucket_size_(bucket_size), table_(table) {}

  CodecId id() const noexcept override { return id_; }
  std::uint8_t format_version() const noexcept override { return format_version_; }
  int largest_code() const noexcept override { return table_.count; }
  std::size_t bucket_size() const noexcept override { return bucket_size_; }

  float own_scale(std::span<const float> bucket) const override {
    const std::uint32_t largest = largest_magnitude_bits(bucket);
    if (largest > kLargestFiniteBits) require_finite(codec_name(id_), bucket);
    return std::bit_cast<float>(largest);
  }

  float step(float shared) const noexcept override {
    return step_of(static_cast<double>(shared), static_cast<std::uint32_t>(table_.count));
  }

  void quantise(const SharedBucket& bucket, std::size_t offset, std::span<const float> values,
                std::span<std::int8_t> codes) const override {
    if (bucket.own == 0) {
      std::fill(codes.begin(), codes.end(), std::int8_t{0});
    } else if (bucket.shared >= kSmallNorm && bucket.shared <= kLargeNorm) {
      round(bucket, bucket.shared, offset, values, codes);
    } else {
      const float power = bucket.shared < kSmallNorm ? 0x1p64f : 0x1p-64f;
      float scaled[kBlock];
      for (std::size_t i = 0; i < values.size(); i += kBlock) {
        const std::size_t n = std::min(kBlock, values.size() - i);
        for (std::size_t j = 0; j < n; ++j) scaled[j] = values[i + j] * power;
        round(bucket, bucket.shared * power, offset + i, {scaled, n}, codes.subspan(i, n));
      }
    }
  }

 private:
  void round(const SharedBucket& bucket, float norm, std::size_t offset,
             std::span<const float> values, std::span<std::int8_t> codes) const {
    const RandomStream stream = bucket_stream(bucket.key, bucket.first_index, bucket.count);
    // Four rows of 16 values share 16 random words.
    const auto first_word = static_cast<std::uint32_t>(bucket.first_index + offset / 4);
    quantize(values, inverse_of(table_, norm), table_, stream, first_word,
             {reinterpret_cast<LevelCode*>(codes.data()), codes.size()});
    signed_from_magnitudes(codes);
  }

  CodecId id_;
  std::uint8_t format_version_;
  std::size_t bucket_size_;
  LevelTable table_;
};

}  // namespace

std::unique_ptr<IntegerCodec> LevelCodec::integer_codec() const {
  // Sums of codes have no entropy coding, so only fixed coding has an integer form.
  if (!options_.uniform || options_.norm != Norm::max || entropy_) return nullptr;
  return std::make_unique<IntegerLevels>(options_.id, format_version() | kIntegerVersionBit,
                                         options_.bucket_size, table_);
}

}  // namespace eqt::codec
