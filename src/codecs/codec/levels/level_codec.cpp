// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/level_codec.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/finite.hpp"
#include "codec/integer/integer_codec.hpp"
#include "codec/integer/integer_kernels.hpp"
#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/fixed_coding.hpp"
#include "codec/levels/level_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kNormBytes = sizeof(float);
// In longer buckets Elias words of gaps would not fit into the bit reader's window.
constexpr std::size_t kMaxBucketSize = std::size_t{1} << 30;
// Fixed codes are written in blocks of this many on the stack, which stay in the L1 cache.
constexpr std::size_t kBlock = 1024;
// Slots of the workspace.
constexpr ScratchArray<LevelCode> kLevelCodes{0};
constexpr ScratchArray<float> kScaledBucket{1};
constexpr ScratchArray<std::span<const std::byte>> kUnreadPayloads{2};  // of each payload

[[noreturn]] void fail_not_finite(std::span<const float> values, std::uint64_t first_index) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  fail(Kind::diverged,
       "expected finite values to compress, found {} at index {} of the slice; try "
       "a smaller learning rate",
       *bad, first_index + static_cast<std::uint64_t>(bad - values.begin()));
}

[[noreturn]] void fail_truncated(std::size_t expected, std::size_t found) {
  fail(Kind::wire, "level payload: expected {} more bytes in a bucket, found {}", expected, found);
}

std::size_t encode_raw(std::span<const float> bucket, std::span<std::byte> to) {
  std::memcpy(to.data(), bucket.data(), bucket.size_bytes());
  return bucket.size_bytes();
}

std::size_t add_raw(std::span<const std::byte> from, float scale, std::span<float> sum) {
  if (from.size() < sum.size_bytes()) fail_truncated(sum.size_bytes(), from.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const auto value = load<float>(from.data() + i * sizeof(float));
    if (!std::isfinite(value)) {
      fail(Kind::wire, "level payload: expected finite values in a raw bucket, found {}", value);
    }
    sum[i] += scale * value;
  }
  return sum.size_bytes();
}

/// The bucket or, if its norm is out of range, a scaled copy; `norm` is set to the norm of the
/// result.
std::span<const float> brought_into_range(std::span<const float> bucket, float& norm,
                                          Workspace& workspace) {
  if (norm >= kSmallNorm && norm <= kLargeNorm) return bucket;
  const float power = norm < kSmallNorm ? 0x1p64f : 0x1p-64f;
  const auto scaled = workspace.array(kScaledBucket, bucket.size());
  for (std::size_t i = 0; i < bucket.size(); ++i) scaled[i] = bucket[i] * power;
  norm *= power;
  return scaled;
}

float checked_norm(std::span<const std::byte> from) {
  if (from.size() < kNormBytes) fail_truncated(kNormBytes, from.size());
  const auto norm = load<float>(from.data());
  if (std::isnan(norm) || std::signbit(norm)) {
    fail(Kind::wire, "level payload: expected a bucket's norm of at least 0, found {}", norm);
  }
  return norm;
}

// Packed buckets that are added together, in the order in which they were given.
class PendingBuckets {
 public:
  PendingBuckets(const LevelTable& table, float scale, std::span<float> sum)
      : table_(table), scale_(scale), sum_(sum) {}

  void push(const std::byte* packed, float norm) {
    if (count_ == kMost) flush();
    const std::size_t sign = std::size_t{1} << (table_.bits - 1);
    fill_values(table_, norm, scale_, sign, values_[count_]);
    buckets_[count_] = {packed, values_[count_]};
    ++count_;
  }

  void flush() {
    if (count_ > 0) add_fixed(std::span(buckets_).first(count_), table_.bits, sum_);
    count_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 8;

  const LevelTable& table_;
  float scale_;
  std::span<float> sum_;
  std::size_t count_ = 0;
  std::array<PackedBucket, kMost> buckets_;
  alignas(64) float values_[kMost][256];
};

constexpr std::size_t kScaledBlock = 1024;  // values scaled at a time; a multiple of kPartGranule

/// Integer codes for uniform levels under the maximum norm (qsgd-v): a code is the signed index.
class IntegerLevels final : public IntegerCodec {
 public:
  IntegerLevels(CodecId id, std::uint8_t format_version, std::size_t bucket_size, Rounding rounding,
                const LevelTable& table)
      : id_(id),
        format_version_(format_version),
        bucket_size_(bucket_size),
        rounding_(rounding),
        table_(table) {}

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
      float scaled[kScaledBlock];
      for (std::size_t i = 0; i < values.size(); i += kScaledBlock) {
        const std::size_t n = std::min(kScaledBlock, values.size() - i);
        for (std::size_t j = 0; j < n; ++j) scaled[j] = values[i + j] * power;
        round(bucket, bucket.shared * power, offset + i, {scaled, n}, codes.subspan(i, n));
      }
    }
  }

 private:
  void round(const SharedBucket& bucket, float norm, std::size_t offset,
             std::span<const float> values, std::span<std::int8_t> codes) const {
    const RandomStream stream = bucket_stream(bucket.key, bucket.first_index, bucket.count,
                                              strata_for(rounding_, bucket.strata));
    // Four rows of 16 values share 16 random words.
    const auto first_word = static_cast<std::uint32_t>(bucket.first_index + offset / 4);
    quantize(values, inverse_of(table_, norm), table_, stream, first_word,
             {reinterpret_cast<LevelCode*>(codes.data()), codes.size()});
    signed_from_magnitudes(codes);
  }

  CodecId id_;
  std::uint8_t format_version_;
  std::size_t bucket_size_;
  Rounding rounding_;
  LevelTable table_;
};

}  // namespace

LevelCodec::LevelCodec(const LevelCodecOptions& options, const Levels& levels)
    : options_(options), table_(levels, options.uniform) {
  EQT_CHECK(levels.size() == std::size_t{1} << (options.bits - 1), "{} levels for {} bits",
            levels.size(), options.bits);
  if (options.bucket_size < 1 || options.bucket_size > kMaxBucketSize) {
    fail(Kind::usage, "compressor.bucket_size: expected 1 to 2^30 values, found {}",
         options.bucket_size);
  }
  if (options.coding != Coding::fixed) entropy_.emplace(options.coding, table_.count);
}

Properties LevelCodec::properties() const noexcept {
  return {.unbiased = !options_.damped,
          .random = true,
          .granule = options_.bucket_size,
          .concatenates = true};
}

std::size_t LevelCodec::max_bucket_bytes(std::size_t count) const {
  const std::size_t coded =
      entropy_ ? entropy_->max_bytes(count) : fixed_bytes(count, options_.bits);
  return kNormBytes + std::max(coded, count * sizeof(float));
}

std::size_t LevelCodec::max_payload_bytes(std::size_t count) const {
  const std::size_t last = count % options_.bucket_size;
  return count / options_.bucket_size * max_bucket_bytes(options_.bucket_size) +
         (last > 0 ? max_bucket_bytes(last) : 0);
}

std::optional<double> LevelCodec::variance_bound(std::size_t count) const {
  if (count == 0) return 0.0;
  // Zeros are exact, so a shorter bucket has no larger variance than a full one.
  const Levels levels(table_.level.begin(), table_.level.begin() + table_.count + 1);
  const double variance =
      worst_case_variance(levels, std::min(count, options_.bucket_size), options_.norm);
  return options_.damped ? variance / (1 + variance) : variance;
}

float LevelCodec::bucket_norm(std::span<const float> bucket, std::uint64_t first_index) const {
  if (options_.norm == Norm::max) {
    const auto norm = std::bit_cast<float>(largest_magnitude_bits(bucket));
    if (!std::isfinite(norm)) fail_not_finite(bucket, first_index);
    return norm;
  }
  const double squares = sum_of_squares(bucket);
  if (!std::isfinite(squares)) fail_not_finite(bucket, first_index);
  return norm_of_squares(squares);
}

std::size_t LevelCodec::encode(std::span<const float> values, const EncodeContext& context,
                               Workspace& workspace, std::span<std::byte> payload) const {
  EQT_CHECK(payload.size() >= max_payload_bytes(values.size()),
            "a payload of {} bytes for {} values", payload.size(), values.size());
  std::size_t used = 0;
  for (std::size_t start = 0; start < values.size();) {
    const auto left = values.subspan(start);
    const auto to = payload.subspan(used);
    const std::uint64_t first_index = context.first_index + start;
    if (const std::size_t easy = easy_count(left.size(), first_index); easy > 0) {
      const RandomStream stream(context.key, static_cast<std::uint32_t>(first_index >> 32),
                                strata_for(options_.rounding, context.strata));
      const auto done = encode_buckets(left.first(easy), options_.bucket_size, options_.norm,
                                       table_, stream, static_cast<std::uint32_t>(first_index), to);
      start += done.values;
      used += done.bytes;
      if (done.values > 0) continue;
    }
    const auto bucket = left.first(std::min(options_.bucket_size, left.size()));
    used += encode_bucket(bucket, context, first_index, workspace, to);
    start += bucket.size();
  }
  return used;
}

// Returns how many of `count` values encode_buckets() may get.
std::size_t LevelCodec::easy_count(std::size_t count, std::uint64_t first_index) const {
  const std::size_t size = options_.bucket_size;
  if (entropy_ || options_.damped || 32 % options_.bits != 0 ||
      size % block_values(options_.bits) != 0)
    return 0;
  const std::uint64_t in_block = (std::uint64_t{1} << 32) - (first_index & 0xFFFFFFFFu);
  count = static_cast<std::size_t>(std::min<std::uint64_t>(in_block, count));
  return count - count % size;
}

std::size_t LevelCodec::encode_with_feedback(std::span<const float> gradient,
                                             const EncodeContext& context, Workspace& workspace,
                                             std::span<float> residual,
                                             std::span<std::byte> payload) const {
  EQT_CHECK(residual.size() == gradient.size(), "{} residuals for {} values", residual.size(),
            gradient.size());
  EQT_CHECK(payload.size() >= max_payload_bytes(gradient.size()),
            "a payload of {} bytes for {} values", payload.size(), gradient.size());
  std::size_t used = 0, compensated = 0;
  EncodeContext part = context;
  for (std::size_t start = 0; start < gradient.size();) {
    const std::size_t left = gradient.size() - start;
    part.first_index = context.first_index + start;
    const auto to = payload.subspan(used);
    const std::size_t easy = easy_count(left, part.first_index);
    if (easy > 0) {
      const auto done = encode_buckets_with_feedback(
          gradient.subspan(start, easy), residual.subspan(start, easy), compensated - start,
          options_.bucket_size, options_.norm, table_,
          RandomStream(part.key, static_cast<std::uint32_t>(part.first_index >> 32),
                       strata_for(options_.rounding, part.strata)),
          static_cast<std::uint32_t>(part.first_index), to);
      compensated = std::max(compensated, start + done.compensated);
      start += done.values;
      used += done.bytes;
      if (done.values > 0) continue;
    }
    // A few buckets at a time, so that each value is read from memory once.
    constexpr std::size_t kAtOnce = 16384;
    const std::size_t few = options_.bucket_size * (1 + kAtOnce / (options_.bucket_size + 1));
    const std::size_t step = easy > 0 ? options_.bucket_size : few;
    const auto block = residual.subspan(start, std::min(step, left));
    start += block.size();
    for (; compensated < start; ++compensated) residual[compensated] += gradient[compensated];
    const std::size_t bytes = encode(block, part, workspace, to);
    decode_add(to.first(bytes), -1.0f, workspace, block);
    used += bytes;
  }
  return used;
}

std::size_t LevelCodec::encode_bucket(std::span<const float> bucket, const EncodeContext& context,
                                      std::uint64_t first_index, Workspace& workspace,
                                      std::span<std::byte> to) const {
  float norm = bucket_norm(bucket, first_index);
  store(to.data(), norm);
  const auto coded = to.subspan(kNormBytes);
  if (norm == 0) return kNormBytes;
  if (norm == kInfinity) return kNormBytes + encode_raw(bucket, coded);
  const auto scaled = brought_into_range(bucket, norm, workspace);
  const RandomStream stream = bucket_stream(context.key, first_index, bucket.size(),
                                            strata_for(options_.rounding, context.strata));
  const auto first_word = static_cast<std::uint32_t>(first_index);
  if (options_.damped) return encode_damped(scaled, norm, stream, first_word, workspace, to);
  return kNormBytes + encode_scaled(scaled, norm, stream, first_word, workspace, coded);
}

/// Encodes a bucket whose norm is already at the front of `to`, and makes that norm smaller.
std::size_t LevelCodec::encode_damped(std::span<const float> bucket, float norm,
                                      const RandomStream& stream, std::uint32_t first_word,
                                      Workspace& workspace, std::span<std::byte> to) const {
  const auto codes = workspace.array(kLevelCodes, bucket.size());
  quantize(bucket, inverse_of(table_, norm), table_, stream, first_word, codes);
  const double damped = damping(bucket, norm, codes) * static_cast<double>(load<float>(to.data()));
  // A norm of 0 would say that no codes follow.
  store(to.data(), std::max(static_cast<float>(damped), std::numeric_limits<float>::denorm_min()));
  to = to.subspan(kNormBytes);
  if (entropy_) return kNormBytes + entropy_->encode(codes, to);
  const std::size_t bytes = fixed_bytes(codes.size(), options_.bits);
  pack_fixed(codes, options_.bits, to.first(bytes));
  return kNormBytes + bytes;
}

/// Returns the factor of the norm with which the codes are nearest to the bucket, at most 1.
double LevelCodec::damping(std::span<const float> bucket, float norm,
                           std::span<const LevelCode> codes) const {
  // Products of two float32 are exact in fp64 and the order of additions is fixed, so the sums are
  // the same on every processor.
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> products = {}, squares = {};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto level = static_cast<double>(table_.level[codes[i] & (kSignCode - 1u)]);
    products[i % kSums] += static_cast<double>(std::abs(bucket[i])) * level;
    squares[i % kSums] += level * level;
  }
  double product = 0, square = 0;
  for (std::size_t k = 0; k < kSums; ++k) {
    product += products[k];
    square += squares[k];
  }
  return square > 0 ? std::min(1.0, product / (square * static_cast<double>(norm))) : 1.0;
}

Levels LevelCodec::levels() const {
  const auto count = static_cast<std::size_t>(table_.count) + 1;
  return Levels(table_.level.begin(), table_.level.begin() + static_cast<std::ptrdiff_t>(count));
}

void LevelCodec::count_codes(std::span<const float> values, const EncodeContext& context,
                             Workspace& workspace, std::span<std::uint64_t, 256> counts) const {
  for (std::size_t start = 0; start < values.size(); start += options_.bucket_size) {
    const auto bucket =
        values.subspan(start, std::min(options_.bucket_size, values.size() - start));
    const std::uint64_t first_index = context.first_index + start;
    float norm = bucket_norm(bucket, first_index);
    if (norm == 0) counts[0] += bucket.size();
    if (norm == 0 || norm == kInfinity) continue;
    const auto scaled = brought_into_range(bucket, norm, workspace);
    const auto codes = workspace.array(kLevelCodes, bucket.size());
    quantize(scaled, inverse_of(table_, norm), table_,
             bucket_stream(context.key, first_index, bucket.size(),
                           strata_for(options_.rounding, context.strata)),
             static_cast<std::uint32_t>(first_index), codes);
    for (const LevelCode code : codes) ++counts[code];
  }
}

std::size_t LevelCodec::encode_scaled(std::span<const float> bucket, float norm,
                                      const RandomStream& stream, std::uint32_t first_word,
                                      Workspace& workspace, std::span<std::byte> to) const {
  if (entropy_) {
    const auto codes = workspace.array(kLevelCodes, bucket.size());
    quantize(bucket, inverse_of(table_, norm), table_, stream, first_word, codes);
    return entropy_->encode(codes, to);
  }
  const std::size_t bytes = fixed_bytes(bucket.size(), options_.bits);
  encode_fixed(bucket, norm, stream, first_word, to.first(bytes));
  return bytes;
}

void LevelCodec::encode_fixed(std::span<const float> bucket, float norm, const RandomStream& stream,
                              std::uint32_t first_word, std::span<std::byte> to) const {
  const float inverse = inverse_of(table_, norm);
  std::size_t done = 0;
  if (32 % options_.bits == 0) {
    done = bucket.size() - bucket.size() % block_values(options_.bits);
    quantize_and_pack(bucket.first(done), inverse, table_, stream, first_word,
                      to.first(fixed_bytes(done, options_.bits)));
  }
  alignas(64) LevelCode codes[kBlock];
  for (; done < bucket.size(); done += kBlock) {
    const std::size_t count = std::min(kBlock, bucket.size() - done);
    // Four rows of 16 values share 16 random words.
    quantize(bucket.subspan(done, count), inverse, table_, stream,
             first_word + static_cast<std::uint32_t>(done / 4), {codes, count});
    pack_fixed({codes, count}, options_.bits,
               to.subspan(fixed_bytes(done, options_.bits), fixed_bytes(count, options_.bits)));
  }
}

std::size_t LevelCodec::prefix_bytes(std::span<const std::byte> payload, std::size_t count) const {
  if (entropy_) return 0;
  const std::size_t packed = fixed_bytes(options_.bucket_size, options_.bits);
  std::size_t bytes = 0;
  for (std::size_t buckets = count / options_.bucket_size; buckets > 0; --buckets) {
    if (payload.size() - bytes < kNormBytes) return 0;
    const auto norm = load<float>(payload.data() + bytes);
    bytes += kNormBytes;
    if (norm == 0) continue;
    const std::size_t coded = norm == kInfinity ? options_.bucket_size * sizeof(float) : packed;
    if (payload.size() - bytes < coded) return 0;
    bytes += coded;
  }
  return bytes;
}

void LevelCodec::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                            std::span<float> sum) const {
  decode_add_all(std::span(&payload, 1), scale, workspace, sum);
}

void LevelCodec::decode_add_all(std::span<const std::span<const std::byte>> payloads, float scale,
                                Workspace& workspace, std::span<float> sum) const {
  const auto rest = workspace.array(kUnreadPayloads, payloads.size());
  std::copy(payloads.begin(), payloads.end(), rest.begin());
  for (std::size_t start = 0; start < sum.size(); start += options_.bucket_size) {
    decode_buckets(rest, scale, workspace,
                   sum.subspan(start, std::min(options_.bucket_size, sum.size() - start)));
  }
  for (const auto left : rest) {
    if (left.empty()) continue;
    fail(Kind::wire, "level payload: expected its end after {} values, found {} more bytes",
         sum.size(), left.size());
  }
}

// Decodes the next bucket of each payload and removes it from `rest`.
void LevelCodec::decode_buckets(std::span<std::span<const std::byte>> rest, float scale,
                                Workspace& workspace, std::span<float> sum) const {
  PendingBuckets pending(table_, scale, sum);
  for (auto& from : rest) {
    const float norm = checked_norm(from);
    from = from.subspan(kNormBytes);
    if (norm == 0) continue;
    if (norm == kInfinity) {
      pending.flush();
      from = from.subspan(add_raw(from, scale, sum));
    } else if (entropy_) {
      const auto codes = workspace.array(kLevelCodes, sum.size());
      from = from.subspan(entropy_->decode(from, codes));
      alignas(64) float value[256];
      fill_values(table_, norm, scale, kSignCode, value);
      add_codes(codes, table_.bits, value, sum);
    } else {
      const std::size_t bytes = fixed_bytes(sum.size(), options_.bits);
      if (from.size() < bytes) fail_truncated(bytes, from.size());
      pending.push(from.data(), norm);
      from = from.subspan(bytes);
    }
  }
  pending.flush();
}

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

std::unique_ptr<IntegerCodec> LevelCodec::integer_codec() const {
  // Sums of codes have no entropy coding, so only fixed coding has an integer form.
  // The scales of all ranks are one, so no rank can send one of its own that is smaller.
  if (!options_.uniform || options_.norm != Norm::max || entropy_ || options_.damped)
    return nullptr;
  return std::make_unique<IntegerLevels>(options_.id, format_version() | kIntegerVersionBit,
                                         options_.bucket_size, options_.rounding, table_);
}

}  // namespace eqt::codec
