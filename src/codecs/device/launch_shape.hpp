// SPDX-License-Identifier: Apache-2.0
// How many warps and groups a job takes, and the calls of its kernel for each: the same for a
// device and for the host.

#pragma once

#include <type_traits>
#include <utility>

#include "codec/levels/with_width.hpp"
#include "device/cast_kernels.hpp"
#include "device/int8_kernels.hpp"
#include "device/level_kernels.hpp"
#include "device/level_sum_kernels.hpp"
#include "device/sign_kernels.hpp"

namespace eqt::device {

constexpr std::size_t divided_up(std::size_t a, std::size_t b) { return a / b + (a % b != 0); }

/// Warps of a group that encodes buckets of this many values.
inline unsigned group_warps(std::size_t bucket_size) {
  const std::size_t warps = divided_up(bucket_size, kTileValues);
  return static_cast<unsigned>(warps < kMaxGroup ? warps : kMaxGroup);
}

/// Tiles of kTileValues, counted in each bucket anew.
inline std::size_t bucket_tiles(std::size_t count, std::size_t bucket_size) {
  return divided_up(count, bucket_size) * divided_up(bucket_size, kTileValues);
}

// A kernel for single warps has run(warp, job, tile); one for groups has a State and
// run(group, job, bucket).
template <typename Format>
struct EncodeCastKernel {
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const EncodeCast& job, std::size_t tile) {
    encode_cast<Format>(warp, job, tile);
  }
};
template <typename Format>
struct AddCastKernel {
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const AddCast& job, std::size_t tile) {
    add_cast<Format>(warp, job, tile);
  }
};
struct AddInt8Kernel {
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const AddInt8& job, std::size_t tile) {
    add_int8(warp, job, tile);
  }
};
template <int kBits>
struct AddLevelsKernel {
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const AddLevels& job, std::size_t tile) {
    add_levels<kBits>(warp, job, tile);
  }
};
struct SignsKernel {
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const EncodeSigns& job, std::size_t tile) {
    encode_signs(warp, job, tile);
  }
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const AddSigns& job, std::size_t tile) {
    add_signs(warp, job, tile);
  }
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const MeanMagnitude& job, std::size_t /*tile*/) {
    mean_magnitude(warp, job);
  }
};
struct AddValuesKernel {
  template <typename Warp>
  static EQT_KERNEL void run(const Warp& warp, const AddValues& job, std::size_t tile) {
    add_values(warp, job, tile);
  }
};
struct EncodeInt8Kernel {
  template <typename Warp>
  using State = Int8Tile<Warp>;
  template <typename Warp, typename Group>
  static EQT_KERNEL void run(Group& group, const EncodeInt8& job, std::size_t bucket) {
    encode_int8<Warp>(group, job, bucket);
  }
};
template <int kBits, bool kFeedback, unsigned kRounds, template <int> typename Cells>
struct EncodeLevelsKernel {
  template <typename Warp>
  using State = LevelTile<Warp, kRounds>;
  template <typename Warp, typename Group>
  static EQT_KERNEL void run(Group& group, const EncodeLevels& job, std::size_t bucket) {
    encode_levels<kBits, kFeedback, Cells<kBits>, kRounds, Warp>(group, job, bucket);
  }
};

/// Calls launch.warps(Kernel(), job, warps) or launch.groups(Kernel(), job, groups, warps in each).
template <typename Launch>
class Launching {
 public:
  explicit Launching(Launch& launch) : launch_(launch) {}

  void operator()(const EncodeCast& job) const {
    const std::size_t tiles = divided_up(job.count, kTileValues);
    if (job.kind == CastKind::half) return launch_.warps(EncodeCastKernel<Half>(), job, tiles);
    launch_.warps(EncodeCastKernel<Bfloat>(), job, tiles);
  }
  void operator()(const AddCast& job) const {
    const std::size_t tiles = divided_up(job.count, kTileValues);
    if (job.kind == CastKind::half) return launch_.warps(AddCastKernel<Half>(), job, tiles);
    launch_.warps(AddCastKernel<Bfloat>(), job, tiles);
  }
  void operator()(const EncodeInt8& job) const {
    launch_.groups(EncodeInt8Kernel(), job, divided_up(job.count, job.bucket_size),
                   group_warps(job.bucket_size));
  }
  void operator()(const AddInt8& job) const {
    launch_.warps(AddInt8Kernel(), job, bucket_tiles(job.count, job.bucket_size));
  }
  void operator()(const EncodeLevels& job) const {
    codec::with_width(job.grid.bits, [&](auto bits) {
      constexpr int kBits = decltype(bits)::value;
      if (job.grid.kind == LevelGrid::Kind::uniform) {
        buckets_of<kBits, UniformCells>(job);
      } else if (job.grid.kind == LevelGrid::Kind::powers) {
        buckets_of<kBits, PowerCells>(job);
      } else if (job.grid.kind == LevelGrid::Kind::many_keys) {
        buckets_of<kBits, ManyKeysCells>(job);
      } else if constexpr (kBits <= kMostFewKeysBits) {
        buckets_of<kBits, FewKeysCells>(job);
      }
    });
  }
  void operator()(const AddLevels& job) const {
    codec::with_width(job.grid.bits, [&](auto bits) {
      launch_.warps(AddLevelsKernel<decltype(bits)::value>(), job,
                    bucket_tiles(job.count, job.bucket_size));
    });
  }
  void operator()(const EncodeSigns& job) const { tiles_of(SignsKernel(), job); }
  void operator()(const AddSigns& job) const { tiles_of(SignsKernel(), job); }
  void operator()(const MeanMagnitude& job) const { launch_.warps(SignsKernel(), job, 1); }
  void operator()(const AddValues& job) const { tiles_of(AddValuesKernel(), job); }

 private:
  template <int kBits, template <int> typename Cells>
  void buckets_of(const EncodeLevels& job) const {
    if (job.bucket_size <= kTileValues / 2) return buckets_of<kBits, 16, Cells>(job);
    buckets_of<kBits, 32, Cells>(job);
  }

  template <int kBits, unsigned kRounds, template <int> typename Cells>
  void buckets_of(const EncodeLevels& job) const {
    const std::size_t buckets = divided_up(job.count, job.bucket_size);
    const unsigned warps = group_warps(job.bucket_size);
    if (job.residual != nullptr) {
      launch_.groups(EncodeLevelsKernel<kBits, true, kRounds, Cells>(), job, buckets, warps);
    } else {
      launch_.groups(EncodeLevelsKernel<kBits, false, kRounds, Cells>(), job, buckets, warps);
    }
  }

  template <typename Kernel, typename OneJob>
  void tiles_of(Kernel kernel, const OneJob& job) const {
    launch_.warps(kernel, job, divided_up(job.count, kTileValues));
  }

  Launch& launch_;
};

}  // namespace eqt::device
