// SPDX-License-Identifier: Apache-2.0
// Kernel of the level codecs that adds decoded values: a warp takes up to kTileValues of a bucket.

#pragma once

#include "device/level_kernels.hpp"

namespace eqt::device {

/// A packed bucket's norm, codes and place in the sum.
struct PackedLevels {
  const std::byte* codes;
  float norm;
  float* sum;
  std::size_t left;  // values of the bucket
};

EQT_KERNEL float level_value(const AddLevels& job, float norm, std::uint32_t code,
                             std::uint32_t sign) {
  const float value = job.scale * (norm * job.grid.level[code & (sign - 1)]);
  return (code & sign) != 0 ? -value : value;
}

template <int kBits, typename Warp>
EQT_KERNEL void add_blocks(const Warp& warp, const AddLevels& job, const PackedLevels& bucket,
                           std::size_t first, std::size_t end) {
  constexpr unsigned kBlockRounds = block_rows(kBits) / 2;
  constexpr unsigned kWords = 32 % kBits == 0 ? 1 : kBits;
  constexpr unsigned kSign = 1u << (kBits - 1), kMask = 2 * kSign - 1;
  constexpr unsigned kAtOnce = kBlockRounds > 8 ? 1 : 8 / kBlockRounds;  // [blocks]
  constexpr unsigned kChunk = kAtOnce * kBlockRounds;                    // [rounds]
  const bool aligned = is_aligned(bucket.codes, 4);
  for (std::size_t i = first; i < end; i += kChunk * kLanes) {
    typename Warp::template Lanes<float> sum[kChunk];
    typename Warp::template Lanes<std::uint32_t> words[kAtOnce * kWords];
    const auto blocks =
        static_cast<unsigned>(least<std::size_t>((end - i) / (kBlockRounds * kLanes), kAtOnce));
    EQT_UNROLL
    for (unsigned b = 0; b < kAtOnce; ++b) {
      if (b >= blocks) break;
      EQT_UNROLL
      for (unsigned k = 0; k < kBlockRounds; ++k) {
        warp.each([&](unsigned lane) {
          const unsigned r = b * kBlockRounds + k;
          sum[r][lane] = bucket.sum[i + r * kLanes + lane];
        });
      }
      EQT_UNROLL
      for (unsigned w = 0; w < kWords; ++w) {
        warp.each([&](unsigned lane) {
          const std::size_t at = i / 8 * kBits + 64 * (b * kWords + w) + 4 * (lane % 16);
          words[b * kWords + w][lane] = load_word(bucket.codes + at, aligned);
        });
      }
    }
    EQT_UNROLL
    for (unsigned b = 0; b < kAtOnce; ++b) {
      if (b >= blocks) break;
      warp.each([&](unsigned lane) {  // rows of odd number: one field down
        if (lane < 16) return;
        EQT_UNROLL
        for (unsigned w = 0; w < kWords; ++w) {
          std::uint32_t& word = words[b * kWords + w][lane];
          word >>= kBits;
          if (w + 1 < kWords) word |= words[b * kWords + w + 1][lane] << (32 - kBits);
        }
      });
      EQT_UNROLL
      for (unsigned k = 0; k < kBlockRounds; ++k) {
        warp.each([&](unsigned lane) {
          constexpr auto kWidth = static_cast<unsigned>(kBits);
          const unsigned r = b * kBlockRounds + k, bit = 2 * k * kWidth;
          std::uint32_t code = words[b * kWords + bit / 32][lane] >> bit % 32;
          if (bit % 32 + kWidth > 32) {
            code |= words[b * kWords + bit / 32 + 1][lane] << (32 - bit % 32);
          }
          bucket.sum[i + r * kLanes + lane] =
              sum[r][lane] + level_value(job, bucket.norm, code & kMask, kSign);
        });
      }
    }
  }
}

/// The plain stream after the whole blocks.
template <int kBits, typename Warp>
EQT_KERNEL void add_rest(const Warp& warp, const AddLevels& job, const PackedLevels& bucket,
                         std::size_t whole) {
  constexpr unsigned kSign = 1u << (kBits - 1), kMask = 2 * kSign - 1;
  for (std::size_t first = whole; first < bucket.left; first += kLanes) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + lane;
      if (i >= bucket.left) return;
      const std::size_t bit = i * kBits;
      std::uint32_t code = static_cast<std::uint32_t>(bucket.codes[bit / 8]) >> bit % 8;
      if (bit % 8 + kBits > 8) {
        code |= static_cast<std::uint32_t>(bucket.codes[bit / 8 + 1]) << (8 - bit % 8);
      }
      bucket.sum[i] += level_value(job, bucket.norm, code & kMask, kSign);
    });
  }
}

/// A bucket of infinite norm: its values, as float32.
template <typename Warp>
EQT_KERNEL void add_raw(const Warp& warp, const AddLevels& job, const PackedLevels& bucket,
                        std::size_t first, std::size_t end) {
  const bool aligned = is_aligned(bucket.codes, 4);
  for (std::size_t i = first; i < end; i += kLanes) {
    warp.each([&](unsigned lane) {
      if (i + lane >= end) return;
      const std::uint32_t bits = load_word(bucket.codes + 4 * (i + lane), aligned);
      if ((bits & 0x7FFFFFFFu) >= 0x7F800000u) set_flags(job.flags, kNotFinite);
      bucket.sum[i + lane] += job.scale * float_of(bits);
    });
  }
}

/// `tile` counts kTileValues of each bucket; the last tile of a bucket may be shorter.
template <int kBits, typename Warp>
EQT_KERNEL void add_levels(const Warp& warp, const AddLevels& job, std::size_t tile) {
  const std::size_t tiles = (job.bucket_size + kTileValues - 1) / kTileValues;
  const std::size_t index = tile / tiles, start = index * job.bucket_size;
  const std::size_t first = tile % tiles * kTileValues;
  const std::size_t left = least(job.bucket_size, job.count - start);
  if (first >= left) return;
  const std::byte* from =
      job.payload + (job.offsets != nullptr ? job.offsets[index] : index * job.slot_bytes);
  const float norm = float_of(load_word(from, is_aligned(from, 4)));
  if (norm == 0) return;
  const PackedLevels bucket = {from + 4, norm, job.sum + start, left};
  const std::size_t whole = left - left % (16 * block_rows(kBits));
  const std::size_t end = least(first + kTileValues, whole);
  if (norm >= float_of(0x7F800000u)) {
    return add_raw(warp, job, bucket, first, least(first + kTileValues, left));
  }
  if (first < end) add_blocks<kBits>(warp, job, bucket, first, end);
  if (whole < left && left <= first + kTileValues) add_rest<kBits>(warp, job, bucket, whole);
}

}  // namespace eqt::device
