// SPDX-License-Identifier: Apache-2.0
// Kernels of raw segments and of the parameter update: kTileValues values a warp.

#pragma once

#include "device/cast_kernels.hpp"

namespace eqt::device {

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

/// One value of optim/sgd.cpp; `m` is unused without momentum.
EQT_KERNEL void sgd_value(const SgdStep& job, float& p, float g, float& m) {
  if (job.momentum_buffer == nullptr) {
    p -= job.rate * (g + job.weight_decay * p);
    return;
  }
  const float decay = job.weight_decay * p;
  const float d = job.corrected ? decay : g + decay;
  m = job.momentum * m + d;
  const float ahead = job.nesterov ? d + job.momentum * m : m;
  p -= job.rate * (job.corrected ? g + ahead : ahead);
}

template <typename Warp>
EQT_KERNEL void sgd_step(const Warp& warp, const SgdStep& job, std::size_t tile) {
  constexpr unsigned kAtOnce = kTileFours / 2;  // three arrays are in registers
  const bool aligned = is_aligned(job.parameters, 16) && is_aligned(job.gradient, 16) &&
                       is_aligned(job.momentum_buffer, 16);
  const bool has_momentum = job.momentum_buffer != nullptr;
  for (unsigned half = 0; half < 2; ++half) {
    typename Warp::template Lanes<Four> p[kAtOnce], g[kAtOnce], m[kAtOnce];
    const std::size_t first = tile * kTileValues + half * kAtOnce * kLanes * 4;
    EQT_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      warp.each([&](unsigned lane) {
        const std::size_t i = first + (k * kLanes + lane) * 4;
        const unsigned count = in_four(i, job.count);
        p[k][lane] = load_four(job.parameters + i, count, aligned);
        g[k][lane] = load_four(job.gradient + i, count, aligned);
        m[k][lane] = has_momentum ? load_four(job.momentum_buffer + i, count, aligned) : Four{};
      });
    }
    EQT_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      warp.each([&](unsigned lane) {
        const std::size_t i = first + (k * kLanes + lane) * 4;
        const unsigned count = in_four(i, job.count);
        EQT_UNROLL
        for (unsigned j = 0; j < 4; ++j) {
          sgd_value(job, p[k][lane].v[j], g[k][lane].v[j], m[k][lane].v[j]);
        }
        store_four(job.parameters + i, p[k][lane], count, aligned);
        if (has_momentum) store_four(job.momentum_buffer + i, m[k][lane], count, aligned);
      });
    }
  }
}

}  // namespace eqt::device
