// SPDX-License-Identifier: Apache-2.0
// Kernels of the level codecs with fixed coding (codec/levels): norm, rounding and packing of a
// bucket, and its values added to a sum.
//
// Encoding takes one group of warps a bucket. Each warp has 512 or 1024 of its values in registers,
// value 32 r + l in round r of lane l: so lane l holds summands of the norm's sum l, and the codes
// of column l mod 16 (fixed_coding.hpp) in rows 2 r + l / 16. Longer buckets are read twice.

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
  StreamWords stream = {0, 0, 0, 0};
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
    return h * multiplier;
  }
  EQT_KERNEL std::uint32_t factor(std::uint32_t round) const { return round % 2 == 0 ? even : odd; }

  std::uint32_t scaled, second, multiplier, even, odd;
};

EQT_KERNEL LaneWords lane_words(const BucketScale& scale, std::uint32_t k, unsigned lane) {
  constexpr std::uint32_t kRowFactor = 0x45108B7Du;
  const std::uint32_t even = lane < 16 ? 1 : kRowFactor;
  const std::uint32_t index = scale.first_word + 16 * k + lane % 16;
  return {index * 0x9E3779B1u + scale.stream.first, scale.stream.second, scale.stream.multiplier,
          even, even * (kRowFactor * kRowFactor)};
}

/// RandomStream::stratified() of value i of a bucket, p; its word itself without strata.
EQT_KERNEL_ONCE std::uint32_t rounding_word(const DeviceStrata& strata, const BucketScale& scale,
                                            std::size_t i, std::uint32_t word, float p) {
  if (strata.bases == nullptr) return word;
  const std::uint32_t run = scale.first_word + 16 * static_cast<std::uint32_t>(i / 64);
  std::uint32_t h = run * 0x9E3779B1u + scale.stream.together;
  h = (h ^ (h >> 16)) * 0x21F0AAADu;
  const std::uint64_t place = (static_cast<std::uint64_t>(h ^ (h >> 15)) * strata.places) >> 32;
  const std::uint32_t upper = (word >> 16) * (strata.factor >> 16) >> 16;
  const std::uint32_t lower = (word & 0xFFFFu) * (strata.factor & 0xFFFFu) >> 16;
  word = strata.bases[place + i % 64] + (upper << 16 | lower);
  return bits_of(p) >> 31 != 0 ? ~word : word;
}

EQT_KERNEL float magnitude_of(float x) { return float_of(bits_of(x) & 0x7FFFFFFFu); }

/// kRounds: 32, or 16 for buckets of at most 512 values.
template <typename Warp, unsigned kRounds>
struct LevelTile {
  typename Warp::template Lanes<float> v[kRounds];
};

EQT_KERNEL constexpr unsigned block_rows(int bits) {
  return 32 % bits == 0 ? 32 / static_cast<unsigned>(bits) : 32;
}
EQT_KERNEL constexpr std::size_t coded_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

template <bool kFeedback, unsigned kRounds, typename Warp>
EQT_KERNEL void load_levels(const Warp& warp, const EncodeLevels& job, std::size_t start,
                            std::size_t first, std::size_t left, LevelTile<Warp, kRounds>& tile) {
  const float* const values = job.values + start + first;
  const unsigned count =
      first < left ? static_cast<unsigned>(least<std::size_t>(left - first, kRounds * kLanes)) : 0;
  if (count == kRounds * kLanes) {
    EQT_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) {
      warp.each([&](unsigned lane) { tile.v[r][lane] = values[r * kLanes + lane]; });
    }
  } else {
    EQT_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) {
      warp.each([&](unsigned lane) {
        const unsigned i = r * kLanes + lane;
        tile.v[r][lane] = i < count ? values[i] : 0.0f;
      });
    }
  }
  if constexpr (!kFeedback) return;
  const float* const residual = job.residual + start + first;
  EQT_UNROLL
  for (unsigned r = 0; r < kRounds; ++r) {
    warp.each([&](unsigned lane) {
      const unsigned i = r * kLanes + lane;
      if (i < count) tile.v[r][lane] = residual[i] + tile.v[r][lane];
    });
  }
}

/// Continues the norm's 32 sums of squares, or its largest magnitude.
template <unsigned kRounds, typename Warp>
EQT_KERNEL void add_to_norm(const Warp& warp, bool max_norm, bool is_first, unsigned w,
                            const LevelTile<Warp, kRounds>& tile, GroupMemory& memory) {
  if (max_norm) {
    typename Warp::template Lanes<std::uint32_t> largest;
    warp.each([&](unsigned lane) { largest[lane] = 0; });
    EQT_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) {
      warp.each([&](unsigned lane) {
        const std::uint32_t bits = bits_of(tile.v[r][lane]) & 0x7FFFFFFFu;
        if (bits > largest[lane]) largest[lane] = bits;
      });
    }
    const std::uint32_t most = warp.largest(largest);
    warp.each([&](unsigned lane) {
      if (lane == 0 && (is_first || most > memory.largest[w])) memory.largest[w] = most;
    });
    return;
  }
  typename Warp::template Lanes<double> sum;
  warp.each([&](unsigned lane) { sum[lane] = is_first && w == 0 ? 0 : memory.sums[lane]; });
  EQT_UNROLL
  for (unsigned r = 0; r < kRounds; ++r) {
    warp.each([&](unsigned lane) {
      sum[lane] = add_square(static_cast<double>(tile.v[r][lane]), sum[lane]);
    });
  }
  warp.each([&](unsigned lane) { memory.sums[lane] = sum[lane]; });
}

/// The whole bucket's norm from the group's memory; NaN if a value is not finite.
template <typename Warp>
EQT_KERNEL float total_norm(const Warp& warp, bool max_norm, unsigned warps,
                            const GroupMemory& memory) {
  if (max_norm) {
    std::uint32_t largest = 0;
    for (unsigned w = 0; w < warps; ++w) {
      if (memory.largest[w] > largest) largest = memory.largest[w];
    }
    return largest >= 0x7F800000u ? float_of(0x7FC00000u) : float_of(largest);
  }
  typename Warp::template Lanes<double> sum;
  warp.each([&](unsigned lane) { sum[lane] = memory.sums[lane]; });
  const double squares = warp.template folded<16>(sum);
  // Neither infinity nor NaN is at most the largest double.
  return squares <= 0x1.fffffffffffffp1023 ? norm_of(squares) : float_of(0x7FC00000u);
}

/// Returns what rounding to `index` leaves of p: p + (-1 * (norm * level)), as decode_add() has it.
EQT_KERNEL float left_of(const EncodeLevels& job, float norm, float p, std::uint32_t index) {
  const float value = -1.0f * (norm * job.grid.level[index]);
  const bool negated = index != 0 && bits_of(p) >> 31 != 0;
  return p + (negated ? -value : value);
}

/// Stores a unit of 16 words, or two that follow each other; lanes l and l ^ 16 each have a part of
/// word l mod 16.
template <typename Warp>
EQT_KERNEL void store_units(const Warp& warp,
                            const typename Warp::template Lanes<std::uint32_t>& first,
                            const typename Warp::template Lanes<std::uint32_t>& second,
                            bool has_second, bool aligned, std::byte* to) {
  // Lanes below 16 keep their part of the first unit and pass on that of the second.
  typename Warp::template Lanes<std::uint32_t> passed;
  warp.each([&](unsigned lane) { passed[lane] = lane < 16 ? second[lane] : first[lane]; });
  const auto received = warp.swap_halves(passed);
  warp.each([&](unsigned lane) {
    const std::uint32_t own = lane < 16 ? first[lane] : second[lane];
    if (lane < 16 || has_second) store_word(to + 4 * lane, own | received[lane], aligned);
  });
}

/// Brings the codes of each lane into their places in its columns' words. Widths that divide 32:
/// units are columns of two blocks, filled from above; rows of odd number are in place, those of
/// even number one field too high, and signs of zeros are cleared. Others: units are the words of
/// one block's columns, filled as if the rows were even.
template <int kBits, typename Warp, std::size_t kUnits>
EQT_KERNEL void finish_units(const Warp& warp,
                             typename Warp::template Lanes<std::uint32_t> (&unit)[kUnits]) {
  constexpr std::uint32_t kIndices = ~0u / ((1u << kBits) - 1) * ((1u << (kBits - 1)) - 1);
  warp.each([&](unsigned lane) {
    if constexpr (32 % kBits == 0) {
      EQT_UNROLL
      for (auto& u : unit) {
        const std::uint32_t fields = lane < 16 ? u[lane] >> kBits : u[lane];
        const std::uint32_t index = fields & kIndices;
        u[lane] = index | (fields & (index + kIndices) & ~kIndices);
      }
    } else if (lane >= 16) {
      EQT_UNROLL
      for (unsigned w = kBits - 1; w > 0; --w) {
        unit[w][lane] = unit[w][lane] << kBits | unit[w - 1][lane] >> (32 - kBits);
      }
      unit[0][lane] <<= kBits;
    }
  });
}

/// Rounds the tile's whole blocks, which end at value `whole` of the tile.
template <int kBits, bool kFeedback, typename Cells, unsigned kRounds, typename Warp>
EQT_KERNEL void encode_blocks(const Warp& warp, const EncodeLevels& job, const BucketScale& scale,
                              std::size_t start, std::size_t first, unsigned whole,
                              const LevelTile<Warp, kRounds>& tile, std::byte* to) {
  using Words = typename Warp::template Lanes<std::uint32_t>;
  constexpr auto kWidth = static_cast<unsigned>(kBits);
  constexpr unsigned kBlockRounds = block_rows(kBits) / 2;
  constexpr unsigned kWords = 32 % kBits == 0 ? 1 : kWidth;  // of a column
  constexpr unsigned kBlocks = kWords == 1 ? 2 : 1;          // that are stored together
  constexpr std::uint32_t kTop = ~0u << (32 - kBits);
  const typename Cells::template Of<Warp> cells(warp, job.grid);
  const bool aligned = is_aligned(to, 4);
  float* const residual = kFeedback ? job.residual + start + first : nullptr;
  typename Warp::template Lanes<LaneWords> words;
  warp.each([&](unsigned lane) {
    words[lane] = lane_words(scale, static_cast<std::uint32_t>(first / 64), lane);
  });
  EQT_UNROLL
  for (unsigned chunk = 0; chunk < kRounds / (kBlocks * kBlockRounds); ++chunk) {
    if (chunk * kBlocks * kBlockRounds * kLanes >= whole) break;
    const bool has_second = (chunk * kBlocks + 2) * kBlockRounds * kLanes <= whole;
    Words unit[kWords == 1 ? 2 : kWords + 1];
    EQT_UNROLL
    for (auto& u : unit) warp.each([&](unsigned lane) { u[lane] = 0; });
    Words product;
    EQT_UNROLL
    for (unsigned k = 0; k < kBlocks * kBlockRounds; ++k) {
      const unsigned r = chunk * kBlocks * kBlockRounds + k;
      typename Warp::template Lanes<float> scaled;
      warp.each([&](unsigned lane) {
        scaled[lane] = magnitude_of(tile.v[r][lane] * scale.power) * scale.inverse;
      });
      const auto position = cells.at(warp, scaled);
      warp.each([&](unsigned lane) {
        if (r % 2 == 0) product[lane] = words[lane].product(r / 2);
        const float p = tile.v[r][lane];
        const std::uint32_t word = rounding_word(job.strata, scale, first + r * kLanes + lane,
                                                 product[lane] * words[lane].factor(r), p);
        const std::uint32_t rounded = position[lane] + (word >> kBits);
        const std::uint32_t sign = bits_of(p) & 0x80000000u;
        if constexpr (kWords == 1) {
          std::uint32_t& fields = unit[k / kBlockRounds][lane];
          fields = fields >> 2 * kBits % 32 | ((rounded | sign) & kTop);
        } else {
          const std::uint32_t index = rounded >> (32 - kBits);
          const std::uint32_t code = index | (index != 0 ? sign >> (32 - kBits) : 0);
          const unsigned bit = 2 * k * kWidth;
          unit[bit / 32][lane] |= code << bit % 32;
          if (bit % 32 + kWidth > 32) unit[bit / 32 + 1][lane] |= code >> (32 - bit % 32);
        }
        if (kFeedback && (k < kBlockRounds || kBlocks == 1 || has_second)) {
          residual[r * kLanes + lane] = left_of(job, scale.norm, p, rounded >> (32 - kBits));
        }
      });
    }
    finish_units<kBits>(warp, unit);
    std::byte* const at = to + 64 * kWords * kBlocks * chunk;
    if constexpr (kWords == 1) {
      store_units(warp, unit[0], unit[1], has_second, aligned, at);
    } else {
      EQT_UNROLL
      for (unsigned u = 0; u < kWords; u += 2) {
        store_units(warp, unit[u], unit[u + 1], u + 1 < kWords, aligned, at + 64 * u);
      }
    }
  }
}

/// The values after a bucket's whole blocks: fewer than 512, a plain stream of codes. A round of 32
/// codes has exactly kBits words.
template <int kBits, bool kFeedback, typename Cells, typename Warp>
EQT_KERNEL void encode_rest(const Warp& warp, const EncodeLevels& job, const BucketScale& scale,
                            std::size_t start, std::size_t whole, std::size_t left,
                            std::byte* codes) {
  const typename Cells::template Of<Warp> cells(warp, job.grid);
  float* const residual = kFeedback ? job.residual + start : nullptr;
  const std::size_t end = coded_bytes(left, kBits);
  for (std::size_t first = whole; first < left; first += kLanes) {
    typename Warp::template Lanes<float> p, scaled;
    warp.each([&](unsigned lane) {
      const std::size_t i = first + lane;
      p[lane] = i < left ? job.values[start + i] : 0.0f;
      if (kFeedback && i < left) p[lane] = residual[i] + p[lane];
      scaled[lane] = magnitude_of(p[lane] * scale.power) * scale.inverse;
    });
    const auto position = cells.at(warp, scaled);
    typename Warp::template Lanes<std::uint32_t> code;
    warp.each([&](unsigned lane) {
      const std::size_t i = first + lane;
      code[lane] = 0;
      if (i >= left) return;
      const LaneWords words = lane_words(scale, static_cast<std::uint32_t>(i / 64), lane);
      const std::uint32_t factor = words.factor(static_cast<std::uint32_t>(i / kLanes));
      const std::uint32_t word =
          rounding_word(job.strata, scale, i, words.product(0) * factor, p[lane]);
      const std::uint32_t index = (position[lane] + (word >> kBits)) >> (32 - kBits);
      code[lane] = index | (index != 0 ? bits_of(p[lane]) >> 31 << (kBits - 1) : 0);
      if (kFeedback) residual[i] = left_of(job, scale.norm, p[lane], index);
    });
    std::byte* const to = codes + first / 8 * kBits;
    for (unsigned w = 0; w < static_cast<unsigned>(kBits); ++w) {
      typename Warp::template Lanes<std::uint32_t> part;
      warp.each([&](unsigned lane) {
        const int bit = static_cast<int>(lane) * kBits - static_cast<int>(32 * w);
        part[lane] = bit >= 32 || bit <= -kBits ? 0
                     : bit >= 0                 ? code[lane] << bit
                                                : code[lane] >> -bit;
      });
      const std::uint32_t word = warp.united(part);
      warp.each([&](unsigned lane) {
        const std::size_t at = 4 * w + lane;
        if (lane < 4 && first / 8 * kBits + at < end) {
          to[at] = static_cast<std::byte>(word >> 8 * lane);
        }
      });
    }
  }
}

/// Only the norm of a bucket is in the payload; all of its values stay in the residual.
template <unsigned kRounds, typename Warp>
EQT_KERNEL void keep_values(const Warp& warp, const EncodeLevels& job, std::size_t start,
                            std::size_t first, std::size_t left,
                            const LevelTile<Warp, kRounds>& tile) {
  if (job.residual == nullptr) return;
  EQT_UNROLL
  for (unsigned r = 0; r < kRounds; ++r) {
    warp.each([&](unsigned lane) {
      const std::size_t i = first + r * kLanes + lane;
      if (i < left) job.residual[start + i] = tile.v[r][lane];
    });
  }
}

template <int kBits, bool kFeedback, typename Cells, unsigned kRounds, typename Warp,
          typename Group>
EQT_KERNEL void encode_levels(Group& group, const EncodeLevels& job, std::size_t bucket) {
  const std::size_t start = bucket * job.bucket_size;
  const std::size_t left = least(job.bucket_size, job.count - start);
  constexpr unsigned kHeld = kRounds * kLanes;  // values of a warp
  const std::size_t stride = group.warps() * std::size_t{kHeld};
  GroupMemory& memory = group.memory();
  for (std::size_t pass = 0; pass < left; pass += stride) {
    group.each([&](const Warp& warp, unsigned w, LevelTile<Warp, kRounds>& tile) {
      load_levels<kFeedback>(warp, job, start, pass + w * kHeld, left, tile);
      if (job.max_norm) add_to_norm(warp, true, pass == 0, w, tile, memory);
    });
    if (job.max_norm) continue;
    group.in_order([&](const Warp& warp, unsigned w, LevelTile<Warp, kRounds>& tile) {
      add_to_norm(warp, false, pass == 0, w, tile, memory);
    });
  }
  group.wait();
  std::byte* const to = job.payload + bucket * job.slot_bytes;
  const std::size_t whole = left - left % (16 * block_rows(kBits));
  for (std::size_t pass = 0; pass < left; pass += stride) {
    group.each([&](const Warp& warp, unsigned w, LevelTile<Warp, kRounds>& tile) {
      const std::size_t first = pass + w * kHeld;
      if (first >= left) return;
      if (stride < left) load_levels<kFeedback>(warp, job, start, first, left, tile);
      const float norm = total_norm(warp, job.max_norm, group.warps(), memory);
      const bool regular = norm > 0 && norm < float_of(0x7F800000u);
      if (first == 0) {
        warp.each([&](unsigned lane) {
          if (lane != 0) return;
          store_word(to, bits_of(norm), is_aligned(to, 4));
          if (!regular) set_flags(job.flags, norm >= 0 ? kIrregular : kNotFinite);
        });
      }
      if (!regular) return keep_values(warp, job, start, first, left, tile);
      const BucketScale scale = scale_of<Cells>(job, start, left, norm);
      const std::size_t end = least(first + kHeld, whole);
      if (first < end) {
        encode_blocks<kBits, kFeedback, Cells>(warp, job, scale, start, first,
                                               static_cast<unsigned>(end - first), tile,
                                               to + 4 + first / 8 * kBits);
      }
      // The warp that holds the last values.
      if (whole < left && left <= first + kHeld) {
        encode_rest<kBits, kFeedback, Cells>(warp, job, scale, start, whole, left, to + 4);
      }
    });
  }
}

}  // namespace eqt::device
