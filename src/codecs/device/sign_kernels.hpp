// SPDX-License-Identifier: Apache-2.0
// Kernels of signsgd and ef-signsgd (codec/signs/sign.cpp): a warp takes kTileValues values, one
// word of signs a lane.

#pragma once

#include "device/jobs.hpp"
#include "device/warp.hpp"

namespace eqt::device {

template <typename Warp>
EQT_KERNEL void encode_signs(const Warp& warp, const EncodeSigns& job, std::size_t tile) {
  const std::size_t first = tile * kTileValues;
  typename Warp::template Lanes<float> v[kLanes];
  EQT_UNROLL
  for (unsigned r = 0; r < kLanes; ++r) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + r * kLanes + lane;
      v[r][lane] = i < job.count ? job.values[i] : 0.0f;
    });
  }
  typename Warp::template Lanes<std::uint32_t> word, largest;
  warp.each([&](unsigned lane) { largest[lane] = word[lane] = 0; });
  EQT_UNROLL
  for (unsigned r = 0; r < kLanes; ++r) {
    typename Warp::template Lanes<bool> negative;
    warp.each([&](unsigned lane) {
      const std::uint32_t bits = bits_of(v[r][lane]);
      negative[lane] = bits > 0x80000000u;  // the sign is set, and it is not -0
      const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
      if (magnitude > largest[lane]) largest[lane] = magnitude;
    });
    const std::uint32_t ballot = warp.ballot(negative);
    warp.each([&](unsigned lane) {
      if (lane == r) word[lane] = ballot;
    });
  }
  warp.each([&](unsigned lane) {
    if (largest[lane] >= 0x7F800000u) set_flags(job.flags, kNotFinite);
    const std::size_t at = first / 8 + 4 * lane;  // [bytes]
    const std::size_t bytes = (job.count + 7) / 8;
    if (at + 4 <= bytes) {
      store_word(job.plane + at, word[lane], true);
    } else {
      for (std::size_t k = 0; at + k < bytes; ++k) {
        job.plane[at + k] = static_cast<std::byte>(word[lane] >> 8 * k);
      }
    }
  });
}

/// 16 sums in fp64, value i added to sum i mod 16 in order: lanes 0 ... 15 add, all lanes read.
/// The time is that of 2 additions for 32 values, each of which waits for the one before.
template <typename Warp>
EQT_KERNEL void mean_magnitude(const Warp& warp, const MeanMagnitude& job) {
  constexpr unsigned kAhead = 16;
  typename Warp::template Lanes<double> sum;
  warp.each([&](unsigned lane) { sum[lane] = 0; });
  typename Warp::template Lanes<std::uint32_t> next[kAhead];
  const auto load = [&](unsigned r, std::size_t first) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + r * kLanes + lane;
      next[r][lane] = i < job.count ? bits_of(job.values[i]) & 0x7FFFFFFFu : 0;
    });
  };
  EQT_UNROLL
  for (unsigned r = 0; r < kAhead; ++r) load(r, 0);
  for (std::size_t first = 0; first < job.count; first += kAhead * kLanes) {
    typename Warp::template Lanes<double> low[kAhead], high[kAhead];
    EQT_UNROLL
    for (unsigned r = 0; r < kAhead; ++r) {
      const auto swapped = warp.swap_halves(next[r]);
      warp.each([&](unsigned lane) {
        low[r][lane] = static_cast<double>(float_of(next[r][lane]));
        high[r][lane] = static_cast<double>(float_of(swapped[lane]));
      });
      load(r, first + kAhead * kLanes);
    }
    EQT_UNROLL
    for (unsigned r = 0; r < kAhead; ++r) {
      warp.each([&](unsigned lane) {
        sum[lane] += low[r][lane];
        sum[lane] += high[r][lane];
      });
    }
  }
  const double total = warp.template folded<8>(sum);
  warp.each([&](unsigned lane) {
    if (lane == 0) *job.magnitude = static_cast<float>(total / static_cast<double>(job.count));
  });
}

template <typename Warp>
EQT_KERNEL void add_signs(const Warp& warp, const AddSigns& job, std::size_t tile) {
  constexpr unsigned kAtOnce = 8;
  const float clear = job.magnitude != nullptr ? job.scale * *job.magnitude : job.scale;
  const std::size_t first = tile * kTileValues;
  const std::size_t bytes = (job.count + 7) / 8;
  typename Warp::template Lanes<std::uint32_t> word;
  warp.each([&](unsigned lane) {
    const std::size_t at = first / 8 + 4 * lane;
    word[lane] = 0;
    if (at + 4 <= bytes) {
      word[lane] = load_word(job.plane + at, true);
    } else {
      for (std::size_t k = 0; at + k < bytes; ++k) {
        word[lane] |= static_cast<std::uint32_t>(job.plane[at + k]) << 8 * k;
      }
    }
  });
  EQT_UNROLL
  for (unsigned r = 0; r < kLanes; r += kAtOnce) {
    typename Warp::template Lanes<float> sum[kAtOnce];
    EQT_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      warp.each([&](unsigned lane) {
        const std::size_t i = first + (r + k) * kLanes + lane;
        sum[k][lane] = i < job.count ? job.sum[i] : 0.0f;
      });
    }
    EQT_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const std::uint32_t bits = warp.from_lane(word, r + k);
      warp.each([&](unsigned lane) {
        const std::size_t i = first + (r + k) * kLanes + lane;
        if (i < job.count) job.sum[i] = sum[k][lane] + ((bits >> lane & 1) != 0 ? -clear : clear);
      });
    }
  }
}

}  // namespace eqt::device
