// SPDX-License-Identifier: Apache-2.0
// Those of level_kernels.hpp that take whole buckets to payload bytes.

#include "codec/levels/level_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "codec/levels/bucket_scale.hpp"
#include "codec/levels/fixed_coding.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/levels/bucket_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

#include "codec/levels/block_adder-inl.hpp"
#include "codec/levels/level_cells-inl.hpp"
#include "codec/levels/norms-inl.hpp"
#include "codec/levels/rounder-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {

// EncodeBuckets() and EncodeBucketsWithFeedback() share this.
struct Buckets {
  std::size_t count, size;  // buckets; values of each
  Norm norm;
  const LevelTable& table;
  const RandomStream& stream;
  std::uint32_t first_word;
  std::byte* payload;
};

// Plain values.
class SentValues {
 public:
  explicit SentValues(const float* values) : values_(values) {}

  HWY_INLINE void Start(NormAccumulator& norm, std::size_t first) const {
    norm.Start(values_ + first);
  }
  const float* At(std::size_t i) const { return values_ + i; }
  template <int kBits>
  auto AfterBlock(const LevelTable&, float /*norm*/, std::size_t /*first*/) const {
    return [](std::size_t, const std::byte*) {};
  }

 private:
  const float* values_;
};

// Gradient plus residual, in the place of the residual. Once a block is encoded, what it decodes to
// is subtracted there, while it is in the first-level cache.
class CompensatedValues {
 public:
  CompensatedValues(const float* gradient, float* residual, std::size_t compensated)
      : gradient_(gradient), residual_(residual), compensated_(compensated) {}

  HWY_INLINE void Start(NormAccumulator& norm, std::size_t first) const {
    if (first < compensated_) return norm.Start(residual_ + first);
    norm.Start(residual_ + first, gradient_ + first);
  }
  const float* At(std::size_t i) const { return residual_ + i; }
  template <int kBits>
  auto AfterBlock(const LevelTable& table, float norm, std::size_t first) const {
    alignas(64) float value[std::size_t{1} << kBits];
    fill_values(table, norm, -1.0f, std::size_t{1} << (kBits - 1), value);
    return [adder = FastBlockAdder<kBits>(value), sum = residual_ + first](std::size_t block,
                                                                           const std::byte* packed)
               HWY_ATTR { adder.Add(packed, sum + block * block_values(kBits)); };
  }

 private:
  const float* gradient_;
  float* residual_;
  std::size_t compensated_;
};

// Quantizes one bucket after another. While it rounds a bucket, it reads the bucket after the next
// for its norm, and finishes the norm of the next bucket, which is a long chain of operations.
template <int kBits, bool kStratified, typename Cells, typename Values>
EncodedBuckets EncodeBucketsWith(const Cells& cells, float scale, const Buckets& job,
                                 const Values& values) {
  NormAccumulator next(job.norm);
  const auto start = [&](std::size_t bucket) HWY_ATTR {
    if (bucket < job.count) return values.Start(next, bucket * job.size);
    next.Start(nullptr);
  };
  const auto is_easy = [](float norm) {
    return norm == 0 || (norm >= kSmallNorm && norm <= kLargeNorm);
  };
  start(0);
  next.StepAlone(job.size);
  float norm = next.Result();
  start(1);
  next.StepAlone(job.size);
  EncodedBuckets done;
  std::size_t bucket = 0;
  for (; bucket < job.count && is_easy(norm); ++bucket) {
    std::memcpy(job.payload + done.bytes, &norm, sizeof norm);
    done.bytes += sizeof norm;
    const float next_norm = next.Result();
    start(bucket + 2);
    if (norm == 0) {
      next.StepAlone(job.size);
    } else {
      const Job rounding{inverse_of(job.table, norm) * scale, kBits, job.stream};
      QuantizeAndPackWith<kBits, kStratified>(
          cells, rounding, values.At(done.values), job.size / block_values(kBits),
          job.first_word + static_cast<std::uint32_t>(done.values), job.payload + done.bytes, next,
          values.template AfterBlock<kBits>(job.table, norm, done.values));
      done.bytes += fixed_bytes(job.size, kBits);
    }
    done.values += job.size;
    norm = next_norm;
  }
  done.compensated = std::min(bucket + 2, job.count) * job.size;
  return done;
}

template <typename Values>
EncodedBuckets EncodeAll(const Buckets& job, const Values& values) {
  EncodedBuckets done;
  WithBits(job.table, [&](auto bits) HWY_ATTR {
    constexpr int kBits = decltype(bits)::value;
    WithCells<kBits>(job.table, [&](const auto& cells, float scale) HWY_ATTR {
      WithStrata(job.stream, [&](auto stratified) HWY_ATTR {
        constexpr bool kStratified = decltype(stratified)::value;
        done = EncodeBucketsWith<kBits, kStratified>(cells, scale, job, values);
      });
    });
  });
  return done;
}

EncodedBuckets EncodeBuckets(std::span<const float> values, std::size_t bucket_size, Norm norm,
                             const LevelTable& table, const RandomStream& stream,
                             std::uint32_t first_word, std::byte* payload) {
  const std::size_t buckets = values.size() / bucket_size;
  return EncodeAll({buckets, bucket_size, norm, table, stream, first_word, payload},
                   SentValues(values.data()));
}

EncodedBuckets EncodeBucketsWithFeedback(std::span<const float> gradient, float* residual,
                                         std::size_t compensated, std::size_t bucket_size,
                                         Norm norm, const LevelTable& table,
                                         const RandomStream& stream, std::uint32_t first_word,
                                         std::byte* payload) {
  const std::size_t buckets = gradient.size() / bucket_size;
  return EncodeAll({buckets, bucket_size, norm, table, stream, first_word, payload},
                   CompensatedValues(gradient.data(), residual, compensated));
}

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(EncodeBuckets);
HWY_EXPORT(EncodeBucketsWithFeedback);

namespace {

void check_buckets(std::size_t values, std::size_t bucket_size, int bits, std::size_t room) {
  EQT_CHECK(bits == 2 || bits == 4 || bits == 8, "blocks of {} bits", bits);
  EQT_CHECK(bucket_size % block_values(bits) == 0 && values % bucket_size == 0,
            "{} values in buckets of {}", values, bucket_size);
  const std::size_t most = values / bucket_size * (sizeof(float) + fixed_bytes(bucket_size, bits));
  EQT_CHECK(room >= most, "{} bytes for a payload of {}", room, most);
}

}  // namespace

EncodedBuckets encode_buckets(std::span<const float> values, std::size_t bucket_size, Norm norm,
                              const LevelTable& table, const RandomStream& stream,
                              std::uint32_t first_word, std::span<std::byte> payload) {
  check_buckets(values.size(), bucket_size, table.bits, payload.size());
  return HWY_DYNAMIC_DISPATCH(EncodeBuckets)(values, bucket_size, norm, table, stream, first_word,
                                             payload.data());
}

EncodedBuckets encode_buckets_with_feedback(std::span<const float> gradient,
                                            std::span<float> residual, std::size_t compensated,
                                            std::size_t bucket_size, Norm norm,
                                            const LevelTable& table, const RandomStream& stream,
                                            std::uint32_t first_word,
                                            std::span<std::byte> payload) {
  check_buckets(gradient.size(), bucket_size, table.bits, payload.size());
  EQT_CHECK(residual.size() == gradient.size() && compensated % bucket_size == 0,
            "{} residuals for {} values, {} compensated", residual.size(), gradient.size(),
            compensated);
  return HWY_DYNAMIC_DISPATCH(EncodeBucketsWithFeedback)(gradient, residual.data(), compensated,
                                                         bucket_size, norm, table, stream,
                                                         first_word, payload.data());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
