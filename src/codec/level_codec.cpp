#include "codec/level_codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/fixed_coding.hpp"
#include "codec/level_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kNormBytes = sizeof(float);
// Above, Elias words of gaps would not fit the bit reader's window.
constexpr std::size_t kMaxBucketSize = std::size_t{1} << 30;
// Outside, 1 / norm or r loses bits: values and norm are first scaled by a power of two.
constexpr float kSmallNorm = 0x1p-64f;
constexpr float kLargeNorm = 0x1p+96f;
// Fixed codes pass through a block of this many on the stack, which stays in the L1 cache.
constexpr std::size_t kBlock = 1024;
// Workspace slots.
constexpr std::size_t kCodesSlot = 0;
constexpr std::size_t kScaledSlot = 1;

float round_up_to_float(double x) {
  if (x > static_cast<double>(std::numeric_limits<float>::max())) return kInfinity;
  const auto rounded = static_cast<float>(x);
  return static_cast<double>(rounded) < x ? std::nextafter(rounded, kInfinity) : rounded;
}

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

// One bucket, rounded; knows where the random counter crosses a block of 2^32.
class Quantizer {
 public:
  Quantizer(const LevelTable& table, float norm, const RandomKey& key, std::uint64_t first_index)
      : table_(table),
        inverse_(static_cast<float>((table.uniform ? table.count : 1) / static_cast<double>(norm))),
        key_(key),
        next_(first_index) {}

  /// Codes of the bucket's next values.
  void next(std::span<const float> values, std::span<LevelCode> codes) {
    while (!values.empty()) {
      const std::uint64_t left = (std::uint64_t{1} << 32) - (next_ & 0xFFFFFFFFu);
      const std::size_t run = std::min<std::uint64_t>(left, values.size());
      const RandomStream stream(key_, static_cast<std::uint32_t>(next_ >> 32));
      quantize(values.first(run), inverse_, table_, stream, static_cast<std::uint32_t>(next_),
               codes.first(run));
      next_ += run;
      values = values.subspan(run);
      codes = codes.subspan(run);
    }
  }

 private:
  const LevelTable& table_;
  float inverse_;
  RandomKey key_;
  std::uint64_t next_;
};

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

float checked_norm(std::span<const std::byte> from) {
  if (from.size() < kNormBytes) fail_truncated(kNormBytes, from.size());
  const auto norm = load<float>(from.data());
  if (std::isnan(norm) || std::signbit(norm)) {
    fail(Kind::wire, "level payload: expected a bucket's norm of at least 0, found {}", norm);
  }
  return norm;
}

// scale * norm * level of each level code, negative ones from kSignCode on.
struct DecodedValues {
  DecodedValues(const LevelTable& table, float norm, float scale) {
    for (std::size_t i = 0; i <= static_cast<std::size_t>(table.count); ++i) {
      value[i] = scale * (norm * table.level[i]);
      value[i + kSignCode] = -value[i];
    }
  }
  alignas(64) float value[256] = {};
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
  return {.unbiased = true, .random = true, .granule = options_.bucket_size};
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
  // Zeros are exact, so that a shorter bucket is no worse than a full one.
  const Levels levels(table_.level.begin(), table_.level.begin() + table_.count + 1);
  return worst_case_variance(levels, std::min(count, options_.bucket_size), options_.norm);
}

float LevelCodec::bucket_norm(std::span<const float> bucket, std::uint64_t first_index) const {
  if (options_.norm == Norm::max) {
    const auto norm = std::bit_cast<float>(largest_magnitude_bits(bucket));
    if (!std::isfinite(norm)) fail_not_finite(bucket, first_index);
    return norm;
  }
  const double squares = sum_of_squares(bucket);
  if (!std::isfinite(squares)) fail_not_finite(bucket, first_index);
  return round_up_to_float(std::sqrt(squares));
}

std::size_t LevelCodec::encode(std::span<const float> values, const EncodeContext& context,
                               Workspace& workspace, std::span<std::byte> payload) const {
  EQT_CHECK(payload.size() >= max_payload_bytes(values.size()),
            "a payload of {} bytes for {} values", payload.size(), values.size());
  std::size_t used = 0;
  for (std::size_t start = 0; start < values.size(); start += options_.bucket_size) {
    const auto bucket =
        values.subspan(start, std::min(options_.bucket_size, values.size() - start));
    const std::uint64_t first_index = context.first_index + start;
    const float norm = bucket_norm(bucket, first_index);
    store(payload.data() + used, norm);
    used += kNormBytes;
    if (norm == 0) continue;
    const auto to = payload.subspan(used);
    used += norm == kInfinity ? encode_raw(bucket, to)
                              : encode_bucket(bucket, norm, context, first_index, workspace, to);
  }
  return used;
}

std::size_t LevelCodec::encode_bucket(std::span<const float> bucket, float norm,
                                      const EncodeContext& context, std::uint64_t first_index,
                                      Workspace& workspace, std::span<std::byte> to) const {
  if (norm < kSmallNorm || norm > kLargeNorm) {
    const float power = norm < kSmallNorm ? 0x1p64f : 0x1p-64f;
    const auto scaled = workspace.array<float>(kScaledSlot, bucket.size());
    for (std::size_t i = 0; i < bucket.size(); ++i) scaled[i] = bucket[i] * power;
    bucket = scaled;
    norm *= power;
  }
  Quantizer quantizer(table_, norm, context.key, first_index);
  if (entropy_) {
    const auto codes = workspace.array<LevelCode>(kCodesSlot, bucket.size());
    quantizer.next(bucket, codes);
    return entropy_->encode(codes, to);
  }
  const std::size_t bytes = fixed_bytes(bucket.size(), options_.bits);
  if (options_.bits == 8) {  // a code is its own packed form
    quantizer.next(bucket, {reinterpret_cast<LevelCode*>(to.data()), bucket.size()});
    return bytes;
  }
  alignas(64) LevelCode codes[kBlock];
  for (std::size_t i = 0; i < bucket.size(); i += kBlock) {
    const std::size_t count = std::min(kBlock, bucket.size() - i);
    quantizer.next(bucket.subspan(i, count), {codes, count});
    pack_fixed({codes, count}, options_.bits,
               to.subspan(fixed_bytes(i, options_.bits), fixed_bytes(count, options_.bits)));
  }
  return bytes;
}

void LevelCodec::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                            std::span<float> sum) const {
  std::span<const std::byte> rest = payload;
  for (std::size_t start = 0; start < sum.size(); start += options_.bucket_size) {
    const auto bucket = sum.subspan(start, std::min(options_.bucket_size, sum.size() - start));
    const float norm = checked_norm(rest);
    rest = rest.subspan(kNormBytes);
    if (norm == 0) continue;
    rest = rest.subspan(norm == kInfinity ? add_raw(rest, scale, bucket)
                                          : decode_bucket(rest, norm, scale, workspace, bucket));
  }
  if (!rest.empty()) {
    fail(Kind::wire, "level payload: expected its end after {} values, found {} more bytes",
         sum.size(), rest.size());
  }
}

std::size_t LevelCodec::decode_bucket(std::span<const std::byte> from, float norm, float scale,
                                      Workspace& workspace, std::span<float> sum) const {
  if (entropy_) {
    const auto codes = workspace.array<LevelCode>(kCodesSlot, sum.size());
    const std::size_t bytes = entropy_->decode(from, codes);
    add_codes(codes, DecodedValues(table_, norm, scale).value, sum);
    return bytes;
  }
  const std::size_t bytes = fixed_bytes(sum.size(), options_.bits);
  if (from.size() < bytes) fail_truncated(bytes, from.size());
  add_fixed(from.first(bytes), norm, scale, sum);
  return bytes;
}

void LevelCodec::add_fixed(std::span<const std::byte> packed, float norm, float scale,
                           std::span<float> sum) const {
  const DecodedValues decoded(table_, norm, scale);
  if (options_.bits == 4) {
    float magnitude[8];
    std::copy_n(decoded.value, 8, magnitude);
    return add_nibbles(packed, magnitude, sum);
  }
  if (options_.bits == 8) {
    return add_codes({reinterpret_cast<const LevelCode*>(packed.data()), packed.size()},
                     decoded.value, sum);
  }
  alignas(64) LevelCode codes[kBlock];
  for (std::size_t i = 0; i < sum.size(); i += kBlock) {
    const std::size_t count = std::min(kBlock, sum.size() - i);
    unpack_fixed(packed.subspan(fixed_bytes(i, options_.bits), fixed_bytes(count, options_.bits)),
                 options_.bits, {codes, count});
    add_codes({codes, count}, decoded.value, sum.subspan(i, count));
  }
}

}  // namespace eqt::codec
