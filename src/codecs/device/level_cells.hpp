// SPDX-License-Identifier: Apache-2.0
// What rounding to levels needs besides the values: positions among the levels, the norm's
// rounding, and a bucket's scale and random words.

#pragma once

#include "device/jobs.hpp"
#include "device/warp.hpp"

namespace eqt::device {

/// Positions among the levels in units of 2^-(32 - bits) (codec/levels/level_cells-inl.hpp).
template <int kBits>
struct UniformCells {
  template <typename Warp>
  struct Of {
    EQT_KERNEL Of(const Warp&, const LevelGrid&) {}
    EQT_KERNEL auto at(const Warp& warp, const typename Warp::template Lanes<float>& r) const {
      typename Warp::template Lanes<std::uint32_t> position;
      warp.each([&](unsigned lane) { position[lane] = static_cast<std::uint32_t>(r[lane]); });
      return position;
    }
  };
  static EQT_KERNEL float scale(const LevelGrid&) {
    return float_of((127u + 32u - static_cast<unsigned>(kBits)) << 23);
  }
};

template <int kBits>
struct PowerCells {
  template <typename Warp>
  struct Of {
    EQT_KERNEL Of(const Warp&, const LevelGrid&) {}
    EQT_KERNEL auto at(const Warp& warp, const typename Warp::template Lanes<float>& r) const {
      typename Warp::template Lanes<std::uint32_t> position;
      warp.each([&](unsigned lane) {
        position[lane] = bits_of(r[lane] + (r[lane] < 2.0f ? 2.0f : r[lane])) << (9 - kBits);
      });
      return position;
    }
  };
  static EQT_KERNEL float scale(const LevelGrid& grid) {
    return float_of((127u + static_cast<unsigned>(grid.count)) << 23);
  }
};

/// Two lines a key: a key spans at most one level.
template <int kBits>
struct ManyKeysCells {
  template <typename Warp>
  struct Of {
    EQT_KERNEL Of(const Warp&, const LevelGrid& g)
        : threshold(g.threshold - g.first_key),
          offset(g.offset - 2 * static_cast<std::ptrdiff_t>(g.first_key)),
          slope(g.slope - 2 * static_cast<std::ptrdiff_t>(g.first_key)),
          lowest(float_of(static_cast<std::uint32_t>(g.first_key) << g.shift)),
          shift(g.shift) {}
    EQT_KERNEL auto at(const Warp& warp, const typename Warp::template Lanes<float>& r) const {
      typename Warp::template Lanes<std::uint32_t> position;
      warp.each([&](unsigned lane) {
        const float x = r[lane];
        const std::uint32_t key = bits_of(x < lowest ? lowest : x) >> shift;
        const std::uint32_t line = 2 * key + (x >= threshold[key] ? 1 : 0);
        position[lane] = static_cast<std::uint32_t>(offset[line] + slope[line] * x);
      });
      return position;
    }
    const float *threshold, *offset, *slope;
    float lowest;
    int shift;
  };
  static EQT_KERNEL float scale(const LevelGrid&) { return 1; }
};

/// Does what ManyKeysCells does, with at most 16 keys: the lanes hold the table, key k in lane k
/// mod 32, its lines in lanes 2 k and 2 k + 1 mod 32.
template <int kBits>
struct FewKeysCells {
  template <typename Warp>
  struct Of {
    EQT_KERNEL Of(const Warp& warp, const LevelGrid& g)
        : lowest(float_of(static_cast<std::uint32_t>(g.first_key) << g.shift)), shift(g.shift) {
      const auto first = static_cast<std::uint32_t>(g.first_key);
      warp.each([&](unsigned lane) {
        const std::uint32_t key = (lane - first) % kLanes, line = (lane - 2 * first) % kLanes;
        threshold[lane] = key < g.keys ? g.threshold[key] : 0.0f;
        offset[lane] = line < 2 * g.keys ? g.offset[line] : 0.0f;
        slope[lane] = line < 2 * g.keys ? g.slope[line] : 0.0f;
      });
    }
    EQT_KERNEL auto at(const Warp& warp, const typename Warp::template Lanes<float>& r) const {
      typename Warp::template Lanes<std::uint32_t> key, position;
      warp.each([&](unsigned lane) {
        key[lane] = bits_of(r[lane] < lowest ? lowest : r[lane]) >> shift;
      });
      const auto bound = warp.looked_up(threshold, key);
      warp.each(
          [&](unsigned lane) { key[lane] = 2 * key[lane] + (r[lane] >= bound[lane] ? 1 : 0); });
      const auto start = warp.looked_up(offset, key), rise = warp.looked_up(slope, key);
      warp.each([&](unsigned lane) {
        position[lane] = static_cast<std::uint32_t>(start[lane] + rise[lane] * r[lane]);
      });
      return position;
    }
    typename Warp::template Lanes<float> threshold, offset, slope;
    float lowest;
    int shift;
  };
  static EQT_KERNEL float scale(const LevelGrid&) { return 1; }
};

/// The smallest float that is not below the square root of `squares`, rounded to fp64
/// (codec/levels/bucket_scale.hpp).
EQT_KERNEL float norm_of(double squares) {
#ifdef __CUDACC__
  if (squares > 0x1p-120 && squares < 0x1p120) {
    // Without a root in fp64, which takes longer than all else that is done once a bucket: squares
    // of floats are exact in fp64.
    const auto square = [](float x) { return static_cast<double>(x) * static_cast<double>(x); };
    float norm = __fsqrt_rn(__double2float_rn(squares));
    if (square(norm) < squares) norm = float_of(bits_of(norm) + 1);
    const double below = square(float_of(bits_of(norm) - 1));
    // Else the float below may be the one, or the rounded root itself.
    if (square(norm) >= squares && below * (1 + 0x1p-50) < squares) return norm;
  }
  const double norm = __dsqrt_rn(squares);
#else
  const double norm = __builtin_sqrt(squares);
#endif
  if (norm > static_cast<double>(0x1.fffffep127f)) return float_of(0x7F800000u);
  const float rounded = static_cast<float>(norm);
  return static_cast<double>(rounded) >= norm ? rounded : float_of(bits_of(rounded) + 1);
}

/// A bucket's values share this while they are rounded.
struct BucketScale {
  float norm = 0;     // as it is sent
  float power = 1;    // brings values and norm into the range of kSmallNorm ... kLargeNorm
  float inverse = 0;  // of the norm in that range, times the cells' scale
  StreamWords stream = {0, 0};
  std::uint32_t first_word = 0;
};

template <typename Cells>
EQT_KERNEL BucketScale scale_of(const EncodeLevels& job, std::size_t start, std::size_t count,
                                float norm) {
  BucketScale scale;
  scale.norm = norm;
  if (norm < 0x1p-64f) scale.power = 0x1p64f;
  if (norm > 0x1p96f) scale.power = 0x1p-64f;
  const float in_range = norm * scale.power;
  // The host divides in fp64 and rounds to float, which is the same: fp64 has more than 2 * 24 + 2
  // bits.
  const bool is_uniform = job.grid.kind == LevelGrid::Kind::uniform;
  const float n = is_uniform ? static_cast<float>(job.grid.count) : 1.0f;
  float inverse = n / in_range;
  while (is_uniform && in_range * inverse > n) inverse = float_of(bits_of(inverse) - 1);
  scale.inverse = inverse * Cells::scale(job.grid);
  const std::uint64_t first = job.first_index + start;
  const std::uint64_t block = first >> 32;
  const bool crosses = (first + count - 1) >> 32 != block;
  scale.stream = job.stream[crosses ? 1 : block == job.first_index >> 32 ? 0 : 2];
  scale.first_word = static_cast<std::uint32_t>(first);
  return scale;
}

/// The random words of one lane, from value 64 k of its bucket on: RandomStream::product() of its
/// column times the multiplier of its row. Rounds 2 j and 2 j + 1 share a product.
struct LaneWords {
  /// The product of rounds 2 j and 2 j + 1.
  EQT_KERNEL std::uint32_t product(std::uint32_t j) const {
    const std::uint32_t x = scaled + j * (16 * 0x9E3779B1u);
    std::uint32_t h = (x ^ (x >> 16)) * 0x21F0AAADu;
    h = (h ^ (h >> 15)) + second;
    return h * 0xD35A2D97u;
  }
  EQT_KERNEL std::uint32_t factor(std::uint32_t round) const { return round % 2 == 0 ? even : odd; }

  std::uint32_t scaled, second, even, odd;
};

EQT_KERNEL LaneWords lane_words(const BucketScale& scale, std::uint32_t k, unsigned lane) {
  constexpr std::uint32_t kRowFactor = 0x45108B7Du;
  const std::uint32_t even = lane < 16 ? 1 : kRowFactor;
  const std::uint32_t index = scale.first_word + 16 * k + lane % 16;
  return {index * 0x9E3779B1u + scale.stream.first, scale.stream.second, even,
          even * (kRowFactor * kRowFactor)};
}

EQT_KERNEL float magnitude_of(float x) { return float_of(bits_of(x) & 0x7FFFFFFFu); }

}  // namespace eqt::device
