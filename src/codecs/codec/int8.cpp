// SPDX-License-Identifier: Apache-2.0
// int8: each value rounded to a multiple of 1/127 of its bucket's largest magnitude. int8-channels:
// the same with the rows of a weight tensor as buckets, one for each output; or, from a network
// that computes with 8-bit weights, these weights as they are.
//
// Source   symmetric 8-bit quantisation by the largest magnitude, as in 8-bit inference and in
//          8-bit optimizers (T. Dettmers et al., ICLR 2022, arXiv:2110.02861, section 2.1)
// Symbols  B values v of a bucket, s = max |v| / 127 the step
// Payload  per bucket: s float32, then B integers q = round(v / s), one byte each
// Size     n + 4 ceil(n / B) bytes
// Error    |out - in| <= s (1/2 + 2^-15); deterministic, so biased: values below max |v| / 254 are
//          0 in every step. So it needs error feedback, unlike the 16-bit casts, whose steps are
//          relative to the value.
// Differs  from max |v| / 127 to nearest: s is rounded upwards, so that |q| <= 127 without clipping
//          and a bucket of denormals keeps a step above 0; and s is lowered where 127 s would be
//          infinite, which takes less than 2^-22 of the largest floats

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/integer/integer_codec.hpp"
#include "codec/levels/level_kernels.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/int8.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace eqt::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Bytes = hn::Rebind<std::int8_t, Floats>;
constexpr std::size_t kLanes = hn::MaxLanes(Floats());

/// q = round(v * inverse) to nearest, ties to even.
void quantize_bucket(const float* HWY_RESTRICT values, std::size_t count, float inverse,
                     std::int8_t* HWY_RESTRICT to) {
  const Floats df;
  const auto factor = hn::Set(df, inverse);
  const auto quantized = [&](const float* from) HWY_ATTR {
    return hn::DemoteTo(Bytes(), hn::NearestInt(hn::Mul(hn::LoadU(df, from), factor)));
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(quantized(values + i), Bytes(), to + i);
  if (i == count) return;
  float last[kLanes] = {};
  std::int8_t last_bytes[kLanes];
  std::memcpy(last, values + i, (count - i) * sizeof(float));
  hn::StoreU(quantized(last), Bytes(), last_bytes);
  std::memcpy(to + i, last_bytes, count - i);
}

/// sum += scale * (step * q).
/// @return the smallest q
std::int32_t add_bucket(const std::int8_t* HWY_RESTRICT from, std::size_t count, float step,
                        float scale, float* HWY_RESTRICT sum) {
  const Floats df;
  const Ints di;
  const auto steps = hn::Set(df, step);
  const auto scales = hn::Set(df, scale);
  auto smallest = hn::Zero(di);
  const auto add = [&](const std::int8_t* bytes, float* to) HWY_ATTR {
    const auto q = hn::PromoteTo(di, hn::LoadU(Bytes(), bytes));
    smallest = hn::Min(smallest, q);
    const auto value = hn::Mul(scales, hn::Mul(steps, hn::ConvertTo(df, q)));
    hn::StoreU(hn::Add(hn::LoadU(df, to), value), df, to);
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) add(from + i, sum + i);
  if (i < count) {
    std::int8_t last_bytes[kLanes] = {};
    float last[kLanes] = {};
    std::memcpy(last_bytes, from + i, count - i);
    std::memcpy(last, sum + i, (count - i) * sizeof(float));
    add(last_bytes, last);
    std::memcpy(sum + i, last, (count - i) * sizeof(float));
  }
  return hn::GetLane(hn::MinOfLanes(di, smallest));
}

}  // namespace
}  // namespace eqt::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(quantize_bucket);
HWY_EXPORT(add_bucket);

using Limits = std::numeric_limits<float>;

constexpr int kLevels = 127;
// The largest step whose 127-fold is finite; largest float / 127 is within 2^-22 of it.
constexpr float kLargestStep = 8454659 * 0x1p98f;
static_assert(double{kLargestStep} * kLevels < double{Limits::max()} + 0x1p103);
static_assert(double{kLargestStep} * kLevels + 0x1p98 * kLevels >= double{Limits::max()} + 0x1p103);

/// largest / 127, rounded upwards, but not above kLargestStep.
float step_for(float largest) {
  const double exact = double{largest} / kLevels;
  auto step = static_cast<float>(exact);
  if (double{step} < exact) step = std::nextafter(step, Limits::infinity());
  return std::min(step, kLargestStep);
}

/// q = round(v / step). @pre step == step_for(at least the largest magnitude)
void quantize(std::span<const float> bucket, float step, std::int8_t* q) {
  if (step >= Limits::min()) {
    HWY_DYNAMIC_DISPATCH(quantize_bucket)(bucket.data(), bucket.size(), 1 / step, q);
  } else if (step > 0) {
    // The inverse of a subnormal step may be infinite; such buckets are too rare for a kernel.
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      q[i] = static_cast<std::int8_t>(std::nearbyint(bucket[i] / step));
    }
  } else {
    std::memset(q, 0, bucket.size());
  }
}

/// max |v|. @throws Error{diverged}; `all` are the values that the index counts from
float largest_magnitude(std::span<const float> bucket, std::span<const float> all) {
  const std::uint32_t largest = largest_magnitude_bits(bucket);
  if (largest > kLargestFiniteBits) require_finite("int8", all);
  return std::bit_cast<float>(largest);
}

/// Codes of one step for all ranks: step_for(the largest magnitude of all).
class IntegerInt8 final : public IntegerCodec {
 public:
  IntegerInt8(std::size_t bucket_size, std::uint8_t format_version)
      : bucket_size_(bucket_size), format_version_(format_version) {}

  CodecId id() const noexcept override { return CodecId::int8; }
  std::uint8_t format_version() const noexcept override { return format_version_; }
  int largest_code() const noexcept override { return kLevels; }
  std::size_t bucket_size() const noexcept override { return bucket_size_; }
  float own_scale(std::span<const float> bucket) const override {
    return largest_magnitude(bucket, bucket);
  }
  float step(float shared) const noexcept override { return step_for(shared); }
  void quantise(const SharedBucket& bucket, std::size_t /*offset*/, std::span<const float> values,
                std::span<std::int8_t> codes) const override {
    quantize(values, step_for(bucket.shared), codes.data());
  }

 private:
  std::size_t bucket_size_;
  std::uint8_t format_version_;
};

std::size_t bytes_of_buckets(std::size_t count, std::size_t bucket_size) {
  return count + sizeof(float) * (count / bucket_size + (count % bucket_size != 0));
}

/// Calls visit(bucket, its place in a payload) for each bucket of `values`.
template <typename Value, typename Byte, typename Visit>
void for_each_bucket(std::span<Value> values, std::size_t bucket_size, Byte* payload,
                     const Visit& visit) {
  for (std::size_t i = 0; i < values.size(); i += bucket_size) {
    const auto bucket = values.subspan(i, std::min(bucket_size, values.size() - i));
    visit(bucket, payload);
    payload += sizeof(float) + bucket.size();
  }
}

/// @pre payload has bytes_of_buckets()
void encode_buckets(std::span<const float> values, std::size_t bucket_size, std::byte* payload) {
  for_each_bucket(values, bucket_size, payload, [&](std::span<const float> bucket, std::byte* to) {
    const float step = step_for(largest_magnitude(bucket, values));
    store(to, step);
    quantize(bucket, step, reinterpret_cast<std::int8_t*>(to + sizeof(float)));
  });
}

/// @pre payload has bytes_of_buckets()
/// @param name  of the compressor
void decode_buckets(std::string_view name, const std::byte* payload, std::size_t bucket_size,
                    float scale, std::span<float> sum) {
  for_each_bucket(sum, bucket_size, payload, [&](std::span<float> bucket, const std::byte* from) {
    const auto first = bucket.data() - sum.data();
    const auto step = load<float>(from);
    if (!(step <= kLargestStep) || std::signbit(step)) {
      fail(Kind::wire,
           "compressor {}: expected a step from 0 to {} for the values from {} on, found {}; "
           "check the network and memory",
           name, kLargestStep, first, step);
    }
    const auto* q = reinterpret_cast<const std::int8_t*>(from + sizeof(float));
    const std::int32_t smallest =
        HWY_DYNAMIC_DISPATCH(add_bucket)(q, bucket.size(), step, scale, bucket.data());
    if (smallest < -kLevels) {
      fail(Kind::wire,
           "compressor {}: expected integers from -127 to 127 for the values from {} on, found "
           "{}; check the network and memory",
           name, first, smallest);
    }
  });
}

/// Each value errs by (1/2 + 2^-15) steps of max|g| / 127 at most, and |g|^2 >= max|g|^2.
double variance_of_bucket(std::size_t count) {
  constexpr double kLargest = (0.5 + 0x1p-15) / 127;
  return static_cast<double>(count) * kLargest * kLargest;
}

class Int8 final : public Compressor {
 public:
  explicit Int8(const CompressorOptions& options) : bucket_size_(options.bucket_size) {
    if (bucket_size_ == 0) {
      fail(Kind::usage,
           "compressor int8: expected a bucket_size of at least 1, found 0; try "
           "compressor.bucket_size=512");
    }
  }

  CodecId id() const noexcept override { return CodecId::int8; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.needs_feedback = true, .granule = bucket_size_, .concatenates = true};
  }
  std::optional<double> variance_bound(std::size_t count) const override {
    return variance_of_bucket(std::min(count, bucket_size_));
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return bytes_of_buckets(count, bucket_size_);
  }
  std::size_t prefix_bytes(std::span<const std::byte> payload, std::size_t count) const override {
    return prefix_of_fixed(payload, max_payload_bytes(count));
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& /*context*/,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    const std::size_t bytes = max_payload_bytes(values.size());
    require_room(payload, bytes, values.size());
    encode_buckets(values, bucket_size_, payload.data());
    return bytes;
  }

  std::unique_ptr<IntegerCodec> integer_codec() const override {
    return std::make_unique<IntegerInt8>(bucket_size_, format_version() | kIntegerVersionBit);
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    require_length("int8", payload, max_payload_bytes(sum.size()), sum.size());
    decode_buckets("int8", payload.data(), bucket_size_, scale, sum);
  }

 private:
  std::size_t bucket_size_;
};

/// int8 whose buckets are the rows of a tensor: its output channels.
class Int8Channels final : public Compressor {
 public:
  CodecId id() const noexcept override { return CodecId::int8_channels; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override { return {.needs_feedback = true, .granule = 0}; }
  std::optional<double> variance_bound(std::size_t count) const override {
    return variance_of_bucket(count);  // of a vector; rows are shorter
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return payload_bytes(count, std::max<std::size_t>(1, count / kMinColumns));
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    if (values.empty()) return 0;
    if (context.rounded) return write(*context.rounded, payload);
    const std::size_t rows = rows_with_steps(values.size(), context.rows);
    std::byte* const to = start(rows, values.size(), payload);
    encode_buckets(values, values.size() / rows, to);
    return payload_bytes(values.size(), rows);
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    if (sum.empty()) return require_length(kName, payload, 0, 0);
    const std::size_t rows = checked_rows(payload, sum.size());
    decode_buckets(kName, payload.data() + kHeaderBytes, sum.size() / rows, scale, sum);
  }

 private:
  static constexpr std::string_view kName = "int8-channels";
  static constexpr std::size_t kHeaderBytes = 4;
  // Shorter rows share a step: a float for each would be more than half of a byte a value.
  static constexpr std::size_t kMinColumns = 8;

  static bool can_be_rows(std::size_t count, std::size_t rows) {
    return rows > 0 && count % rows == 0 && (rows == 1 || count / rows >= kMinColumns);
  }
  static std::size_t rows_with_steps(std::size_t count, std::size_t rows) {
    EQT_CHECK(rows == 0 || count % rows == 0, "{} values in {} rows", count, rows);
    return can_be_rows(count, rows) ? rows : 1;
  }
  static std::size_t payload_bytes(std::size_t count, std::size_t rows) {
    return count == 0 ? 0 : kHeaderBytes + sizeof(float) * rows + count;
  }
  /// Writes the number of rows. @return where they begin
  static std::byte* start(std::size_t rows, std::size_t count, std::span<std::byte> payload) {
    EQT_CHECK(rows <= UINT32_MAX, "a matrix of {} rows", rows);
    require_room(payload, payload_bytes(count, rows), count);
    store(payload.data(), static_cast<std::uint32_t>(rows));
    return payload.data() + kHeaderBytes;
  }
  /// @return the rows that the payload names
  static std::size_t checked_rows(std::span<const std::byte> payload, std::size_t count) {
    if (payload.size() < kHeaderBytes) require_length(kName, payload, kHeaderBytes, count);
    const std::size_t rows = load<std::uint32_t>(payload.data());
    if (!can_be_rows(count, rows)) {
      fail(Kind::wire,
           "compressor {}: expected rows that divide {} values into {} or more each, found {} "
           "rows; check the network and memory",
           kName, count, kMinColumns, rows);
    }
    require_length(kName, payload, payload_bytes(count, rows), count);
    return rows;
  }
  static std::size_t write(const RoundedRows& rounded, std::span<std::byte> payload) {
    const std::size_t count = rounded.values.size(), rows = rounded.scales.size();
    EQT_CHECK(can_be_rows(count, rows), "{} rounded values in {} rows", count, rows);
    std::byte* const first = start(rows, count, payload);
    std::size_t row = 0;
    for_each_bucket(rounded.values, count / rows, first,
                    [&](std::span<const std::int8_t> values, std::byte* to) {
                      store(to, rounded.scales[row++]);
                      std::memcpy(to + sizeof(float), values.data(), values.size());
                    });
    return payload_bytes(count, rows);
  }
};

}  // namespace

const CompressorRow kInt8 = {.name = "int8",
                             .about = "8 bits, round to nearest, one step per bucket",
                             .id = CodecId::int8,
                             .make = make_a<Int8>,
                             .reads = {Option::bucket_size},
                             .colour = "#1e7800"};

const CompressorRow kInt8Channels = {.name = "int8-channels",
                                     .about = "8 bits, round to nearest, one step per output",
                                     .id = CodecId::int8_channels,
                                     .make = make_a<Int8Channels>,
                                     .colour = "#d269c3"};

}  // namespace eqt::codec
#endif  // HWY_ONCE
