// SPDX-License-Identifier: Apache-2.0
// Kernels of fp16 and bf16 (codec/casts.cpp), and of values that are added as they are: a warp
// takes kTileValues values, four neighbouring ones a lane.

#pragma once

#include "device/jobs.hpp"
#include "device/warp.hpp"

namespace eqt::device {

inline constexpr unsigned kTileFours = kTileValues / (4 * kLanes);

/// Conversions of magnitudes; integers and exact floats, as on the host.
struct Half {
  static constexpr std::uint32_t kInfinity = 0x7C00;
  static EQT_KERNEL std::uint32_t round(std::uint32_t magnitude) {
    if (magnitude > 0x7F800000u) return 0x7E00;
    if (magnitude < 113u << 23) return bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    const std::uint32_t odd = magnitude >> 13 & 1;
    return least((magnitude - (112u << 23) + 0xFFFu + odd) >> 13, kInfinity);
  }
  static EQT_KERNEL float value(std::uint32_t magnitude) {
    if (magnitude < 0x400) return static_cast<float>(magnitude) * 0x1p-24f;
    return float_of((magnitude << 13) + (112u << 23));
  }
};

struct Bfloat {
  static constexpr std::uint32_t kInfinity = 0x7F80;
  static EQT_KERNEL std::uint32_t round(std::uint32_t magnitude) {
    const std::uint32_t safe = magnitude > 0x7F800000u ? 0x7FC00000u : magnitude;
    return (safe + 0x7FFFu + (magnitude >> 16 & 1)) >> 16;
  }
  static EQT_KERNEL float value(std::uint32_t magnitude) { return float_of(magnitude << 16); }
};

template <typename Format>
EQT_KERNEL std::uint32_t cast_to(float x) {
  const std::uint32_t bits = bits_of(x);
  return Format::round(bits & 0x7FFFFFFFu) | (bits >> 16 & 0x8000u);
}

template <typename Format>
EQT_KERNEL float cast_from(std::uint32_t half) {
  return float_of(bits_of(Format::value(half & 0x7FFFu)) | (half & 0x8000u) << 16);
}

/// The lane's `four` of a tile, of `count` values in all: how many of them exist.
EQT_KERNEL unsigned in_four(std::size_t first, std::size_t count) {
  return first >= count ? 0 : static_cast<unsigned>(least<std::size_t>(count - first, 4));
}

template <typename Format, typename Warp>
EQT_KERNEL void encode_cast(const Warp& warp, const EncodeCast& job, std::size_t tile) {
  const bool aligned = is_aligned(job.values, 16);
  const bool residual_aligned = is_aligned(job.residual, 16);
  typename Warp::template Lanes<Four> four[kTileFours];
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = tile * kTileValues + (k * kLanes + lane) * 4;
      four[k][lane] = load_four(job.values + i, in_four(i, job.count), aligned);
    });
  }
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = tile * kTileValues + (k * kLanes + lane) * 4;
      const unsigned count = in_four(i, job.count);
      if (count == 0) return;
      Four& x = four[k][lane];
      if (job.residual != nullptr) {
        const Four e = load_four(job.residual + i, count, residual_aligned);
        for (unsigned j = 0; j < 4; ++j) x.v[j] = e.v[j] + x.v[j];
      }
      std::uint32_t cast[4];
      bool finite = true;
      EQT_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        cast[j] = cast_to<Format>(x.v[j]);
        finite = finite && (cast[j] & 0x7FFFu) < Format::kInfinity;
      }
      if (!finite) set_flags(job.flags, kNotFinite);
      std::byte* to = job.payload + 2 * i;
      if (count == 4) {
        store_word(to, cast[0] | cast[1] << 16, true);
        store_word(to + 4, cast[2] | cast[3] << 16, true);
      } else {
        for (unsigned j = 0; j < count; ++j) {
          to[2 * j] = static_cast<std::byte>(cast[j]);
          to[2 * j + 1] = static_cast<std::byte>(cast[j] >> 8);
        }
      }
      if (job.residual != nullptr && finite) {
        for (unsigned j = 0; j < 4; ++j) x.v[j] += -1.0f * cast_from<Format>(cast[j]);
      }
      if (job.residual != nullptr) store_four(job.residual + i, x, count, residual_aligned);
    });
  }
}

template <typename Format, typename Warp>
EQT_KERNEL void add_cast(const Warp& warp, const AddCast& job, std::size_t tile) {
  const bool aligned = is_aligned(job.sum, 16);
  typename Warp::template Lanes<Four> four[kTileFours];
  typename Warp::template Lanes<std::uint32_t> low[kTileFours], high[kTileFours];
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = tile * kTileValues + (k * kLanes + lane) * 4;
      const unsigned count = in_four(i, job.count);
      four[k][lane] = load_four(job.sum + i, count, aligned);
      const std::byte* from = job.payload + 2 * i;
      std::uint32_t words[2] = {0, 0};
      if (count == 4) {
        words[0] = load_word(from, true);
        words[1] = load_word(from + 4, true);
      } else {
        for (unsigned j = 0; j < 2 * count; ++j) {
          words[j / 4] |= static_cast<std::uint32_t>(from[j]) << 8 * (j % 4);
        }
      }
      low[k][lane] = words[0];
      high[k][lane] = words[1];
    });
  }
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = tile * kTileValues + (k * kLanes + lane) * 4;
      const std::uint32_t cast[4] = {low[k][lane] & 0xFFFFu, low[k][lane] >> 16,
                                     high[k][lane] & 0xFFFFu, high[k][lane] >> 16};
      bool finite = true;
      EQT_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        finite = finite && (cast[j] & 0x7FFFu) < Format::kInfinity;
        four[k][lane].v[j] += job.scale * cast_from<Format>(cast[j]);
      }
      if (!finite) set_flags(job.flags, kNotFinite);
      store_four(job.sum + i, four[k][lane], in_four(i, job.count), aligned);
    });
  }
}

template <typename Warp>
EQT_KERNEL void add_values(const Warp& warp, const AddValues& job, std::size_t tile) {
  const bool aligned = is_aligned(job.values, 16);
  const bool sum_aligned = is_aligned(job.sum, 16);
  typename Warp::template Lanes<Four> value[kTileFours], sum[kTileFours];
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = tile * kTileValues + (k * kLanes + lane) * 4;
      const unsigned count = in_four(i, job.count);
      value[k][lane] = load_four(job.values + i, count, aligned);
      sum[k][lane] = load_four(job.sum + i, count, sum_aligned);
    });
  }
  EQT_UNROLL
  for (unsigned k = 0; k < kTileFours; ++k) {
    warp.each([&](unsigned lane) {
      const std::size_t i = tile * kTileValues + (k * kLanes + lane) * 4;
      bool finite = true;
      EQT_UNROLL
      for (unsigned j = 0; j < 4; ++j) {
        const float x = value[k][lane].v[j];
        finite = finite && (bits_of(x) & 0x7FFFFFFFu) < 0x7F800000u;
        sum[k][lane].v[j] += job.scale * x;
      }
      if (!finite && job.flags != nullptr) set_flags(job.flags, kNotFinite);
      store_four(job.sum + i, sum[k][lane], in_four(i, job.count), sum_aligned);
    });
  }
}

}  // namespace eqt::device
