// SPDX-License-Identifier: Apache-2.0
// Kernels of int8 (codec/int8.cpp). Encoding: a group of warps a bucket, each with up to
// kTileValues values in registers; longer buckets are read twice.

#pragma once

#include "device/cast_kernels.hpp"

namespace eqt::device {

template <typename Warp>
struct Int8Tile {
  typename Warp::template Lanes<Four> four[kTileFours];
};

/// largest / 127, rounded upwards, but at most the largest step whose 127-fold is finite.
EQT_KERNEL float int8_step(std::uint32_t largest_bits) {
  const double exact = static_cast<double>(float_of(largest_bits)) / 127;
  float step = static_cast<float>(exact);
  if (static_cast<double>(step) < exact) step = float_of(bits_of(step) + 1);
  return least(step, 8454659 * 0x1p98f);
}

EQT_KERNEL std::int32_t nearest(float x) {
#ifdef __CUDACC__
  return __float2int_rn(x);
#else
  return static_cast<std::int32_t>(__builtin_rintf(x));
#endif
}

/// round(v / step), as the host's quantize(); `inverse` is 1 / step.
EQT_KERNEL std::uint32_t int8_code(float v, float step, float inverse) {
  if (step >= 0x1p-126f) return static_cast<std::uint32_t>(nearest(v * inverse)) & 0xFFu;
  if (step > 0) return static_cast<std::uint32_t>(nearest(v / step)) & 0xFFu;
  return 0;
}

/// The bucket's values `first` ... of `left`, and the residual added.
template <typename Warp>
EQT_KERNEL void load_int8_tile(const Warp& warp, const EncodeInt8& job, std::size_t start,
                               std::size_t first, std::size_t left, Int8Tile<Warp>& tile) {
  const bool aligned = is_aligned(job.values + start, 16);
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + (k * kLanes + lane) * 4;
      tile.four[k][lane] = load_four(job.values + start + i, in_four(i, left), aligned);
    });
  }
  if (job.residual == nullptr) return;
  const bool residual_aligned = is_aligned(job.residual + start, 16);
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + (k * kLanes + lane) * 4;
      const Four e = load_four(job.residual + start + i, in_four(i, left), residual_aligned);
      for (unsigned j = 0; j < 4; ++j) tile.four[k][lane].v[j] = e.v[j] + tile.four[k][lane].v[j];
    });
  }
}

template <typename Warp>
EQT_KERNEL std::uint32_t largest_of(const Warp& warp, const Int8Tile<Warp>& tile) {
  typename Warp::template Lanes<std::uint32_t> largest;
  warp.each([&](unsigned lane) {
    std::uint32_t most = 0;
    EQT_UNROLL
    for (unsigned k = 0; k < kTileFours; ++k) {
      EQT_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        const std::uint32_t bits = bits_of(tile.four[k][lane].v[j]) & 0x7FFFFFFFu;
        if (bits > most) most = bits;
      }
    }
    largest[lane] = most;
  });
  return warp.largest(largest);
}

template <typename Warp>
EQT_KERNEL void store_int8_tile(const Warp& warp, const EncodeInt8& job, std::size_t start,
                                std::size_t first, std::size_t left, float step, std::byte* codes,
                                const Int8Tile<Warp>& tile) {
  const bool aligned = is_aligned(codes, 4);
  float* const residual = job.residual == nullptr ? nullptr : job.residual + start;
  const bool residual_aligned = is_aligned(residual, 16);
  const float inverse = 1 / step;
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + (k * kLanes + lane) * 4;
      const unsigned count = in_four(i, left);
      if (count == 0) return;
      Four x = tile.four[k][lane];
      std::uint32_t code[4], word = 0;
      EQT_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        code[j] = int8_code(x.v[j], step, inverse);
        word |= code[j] << 8 * j;
      }
      if (count == 4) {
        store_word(codes + i, word, aligned);
      } else {
        for (unsigned j = 0; j < count; ++j) codes[i + j] = static_cast<std::byte>(code[j]);
      }
      if (residual == nullptr) return;
      EQT_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        const auto q = static_cast<float>(static_cast<std::int8_t>(code[j]));
        x.v[j] += -1.0f * (step * q);
      }
      store_four(residual + i, x, count, residual_aligned);
    });
  }
}

template <typename Warp, typename Group>
EQT_KERNEL void encode_int8(Group& group, const EncodeInt8& job, std::size_t bucket) {
  const std::size_t start = bucket * job.bucket_size;
  const std::size_t left = least(job.bucket_size, job.count - start);
  const std::size_t stride = group.warps() * std::size_t{kTileValues};
  GroupMemory& memory = group.memory();
  for (std::size_t pass = 0; pass < left; pass += stride) {
    group.each([&](const Warp& warp, unsigned w, Int8Tile<Warp>& tile) {
      load_int8_tile(warp, job, start, pass + w * kTileValues, left, tile);
      const std::uint32_t most = largest_of(warp, tile);
      warp.each([&](unsigned lane) {
        if (lane == 0 && (pass == 0 || most > memory.largest[w])) memory.largest[w] = most;
      });
    });
  }
  group.wait();
  std::uint32_t largest = 0;
  for (unsigned w = 0; w < group.warps(); ++w) {
    if (memory.largest[w] > largest) largest = memory.largest[w];
  }
  const float step = int8_step(least(largest, std::uint32_t{0x7F7FFFFF}));
  std::byte* to = job.payload + bucket * (job.bucket_size + 4);
  for (std::size_t pass = 0; pass < left; pass += stride) {
    group.each([&](const Warp& warp, unsigned w, Int8Tile<Warp>& tile) {
      const std::size_t first = pass + w * kTileValues;
      if (stride < left) load_int8_tile(warp, job, start, first, left, tile);
      warp.each([&](unsigned lane) {
        if (w != 0 || lane != 0 || pass != 0) return;
        store_word(to, bits_of(step), is_aligned(to, 4));
        if (largest >= 0x7F800000u) set_flags(job.flags, kNotFinite);
      });
      store_int8_tile(warp, job, start, first, left, step, to + 4, tile);
    });
  }
}

/// `tile` counts kTileValues of each bucket; the last tile of a bucket may be shorter.
template <typename Warp>
EQT_KERNEL void add_int8(const Warp& warp, const AddInt8& job, std::size_t tile) {
  const std::size_t tiles = (job.bucket_size + kTileValues - 1) / kTileValues;
  const std::size_t bucket = tile / tiles, start = bucket * job.bucket_size;
  const std::size_t first = tile % tiles * kTileValues;
  const std::size_t left = least(job.bucket_size, job.count - start);
  const std::byte* from = job.payload + bucket * (job.bucket_size + 4);
  const bool aligned = is_aligned(from, 4);
  const bool sum_aligned = is_aligned(job.sum + start, 16);
  const float step = float_of(load_word(from, aligned));
  typename Warp::template Lanes<Four> sum[kTileFours];
  typename Warp::template Lanes<std::uint32_t> word[kTileFours];
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + (k * kLanes + lane) * 4;
      const unsigned count = in_four(i, left);
      sum[k][lane] = load_four(job.sum + start + i, count, sum_aligned);
      word[k][lane] = 0;
      if (count == 4) {
        word[k][lane] = load_word(from + 4 + i, aligned);
      } else {
        for (unsigned j = 0; j < count; ++j) {
          word[k][lane] |= static_cast<std::uint32_t>(from[4 + i + j]) << 8 * j;
        }
      }
    });
  }
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + (k * kLanes + lane) * 4;
      bool good = true;
      EQT_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        const auto q = static_cast<std::int8_t>(word[k][lane] >> 8 * j & 0xFFu);
        good = good && q != -128;
        sum[k][lane].v[j] += job.scale * (step * static_cast<float>(q));
      }
      if (!good) set_flags(job.flags, kBadCode);
      store_four(job.sum + start + i, sum[k][lane], in_four(i, left), sum_aligned);
    });
  }
}

}  // namespace eqt::device
