// SPDX-License-Identifier: Apache-2.0
// The loops over steps and tiles, for a family of instructions `Isa`:
//
//   kRows, kMostBlocks        the tile that its registers hold
//   kWidth                    sums of a vector; a block is 16 / kWidth vectors
//   Sums, Row, Panel          vectors
//   zero(), row(p), panel(p)  a row's 4 bytes, broadcast; a vector's part of a panel
//   dot(sums, row, panel)     row is the operand with the offset, if the family has one
//   dot_gradient(sums, row, panel)  panel is
//   keep(row)  makes the compiler believe that the row has changed
//   store(to, sums, correction, scale, lane_scales), add(to, sums, correction, scale)
//
// Included by the unit of each family, in its unnamed namespace.

#include "int8/tiles.hpp"

#if defined(__clang__)
#define EQT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define EQT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace eqt::int8 {
namespace {

template <class Isa, std::size_t kBlocks>
struct Tile {
  static constexpr std::size_t kRows = Isa::kRows;
  static constexpr std::size_t kParts = kBlocks * (kLanes / Isa::kWidth);
  static constexpr std::size_t kPartBytes = kStepBytes * Isa::kWidth;

  using Sums = typename Isa::Sums[kRows][kParts];
  using Panels = typename Isa::Panel[kParts];

  [[gnu::always_inline]] static inline void clear(Sums& sums) {
    EQT_UNROLL for (std::size_t i = 0; i < kRows; ++i)
        EQT_UNROLL for (std::size_t p = 0; p < kParts; ++p) sums[i][p] = Isa::zero();
  }

  [[gnu::always_inline]] static inline void load(Panels& panels, const std::byte* panel,
                                                 std::size_t block_bytes) {
    EQT_UNROLL for (std::size_t p = 0; p < kParts; ++p) {
      const std::size_t at = p * kPartBytes;
      panels[p] = Isa::panel(panel + at / kPanelStep * block_bytes + at % kPanelStep);
    }
  }
};

/// Stores lanes [first, first + lanes).
template <class Isa, std::size_t kBlocks>
void store_tiles(const StoreTiles& t, std::size_t first, std::size_t lanes) {
  using T = Tile<Isa, kBlocks>;
  for (std::size_t tile = 0; tile < t.tiles; ++tile) {
    const std::byte* rows[T::kRows];
    EQT_UNROLL for (std::size_t i = 0; i < T::kRows; ++i) rows[i] = t.rows[tile * T::kRows + i];
    typename T::Sums sums;
    T::clear(sums);
    const std::byte* panel = t.panel + first / kLanes * t.block_bytes;
    for (std::size_t run = 0; run < t.run_count; ++run) {
      const std::ptrdiff_t end = t.runs[run] + static_cast<std::ptrdiff_t>(t.steps * kStepBytes);
      for (std::ptrdiff_t at = t.runs[run]; at < end; at += std::ptrdiff_t{kStepBytes}) {
        typename T::Panels panels;
        T::load(panels, panel, t.block_bytes);
        panel += kPanelStep;
        EQT_UNROLL for (std::size_t i = 0; i < T::kRows; ++i) {
          const auto row = Isa::row(rows[i] + at);
          EQT_UNROLL for (std::size_t p = 0; p < T::kParts; ++p) sums[i][p] =
              Isa::dot(sums[i][p], row, panels[p]);
        }
      }
    }
    EQT_UNROLL for (std::size_t i = 0; i < T::kRows; ++i) {
      float* const to = t.to[tile * T::kRows + i] + first;
      const float scale = t.scales[tile * T::kRows + i];
      float partial[kBlocks * kLanes];
      float* const all = lanes == kBlocks * kLanes ? to : partial;
      EQT_UNROLL for (std::size_t p = 0; p < T::kParts; ++p) {
        const std::size_t lane = p * Isa::kWidth;
        Isa::store(all + lane, sums[i][p], t.correction + first + lane, scale,
                   t.lane_scales + first + lane);
      }
      if (all == partial)
        for (std::size_t lane = 0; lane < lanes; ++lane) to[lane] = partial[lane];
    }
  }
}

template <class Isa>
void store_all(const StoreTiles& t) {
  std::size_t first = 0;
  if constexpr (Isa::kMostBlocks == 2)
    for (; first + kLanes < t.lanes; first += 2 * kLanes)
      store_tiles<Isa, 2>(t, first, t.lanes - first < 2 * kLanes ? t.lanes - first : 2 * kLanes);
  for (; first < t.lanes; first += kLanes)
    store_tiles<Isa, 1>(t, first, t.lanes - first < kLanes ? t.lanes - first : kLanes);
}

template <class Isa, std::size_t kBlocks>
void accumulate_tile(const GradientTile& t) {
  using T = Tile<Isa, kBlocks>;
  constexpr std::size_t kWide = kBlocks * kLanes;
  const std::byte* rows = t.rows;
  const std::ptrdiff_t* next_run = t.runs;
  // Rows of dw are far apart, so they are fetched early. What is added to more than once is a copy:
  // in dw itself, loads would wait for stores that are as far from the start of a page.
  const bool direct = t.group_count == 1 && t.lanes == kWide;
  float copy[T::kRows][kWide];
  for (std::size_t i = 0; i < T::kRows; ++i) {
    for (std::size_t b = 0; b < kBlocks; ++b) __builtin_prefetch(t.to[i] + b * kLanes, 1);
    for (std::size_t lane = 0; !direct && lane < kWide; ++lane)
      copy[i][lane] = lane < t.lanes ? t.to[i][lane] : 0.0f;
  }
  for (std::size_t group = 0; group < t.group_count; ++group) {
    typename T::Sums sums;
    T::clear(sums);
    for (std::size_t run = 0; run < t.groups[group].runs; ++run) {
      const std::byte* panel = t.panel + *next_run++;
      for (std::size_t step = 0; step < t.groups[group].steps; ++step) {
        typename T::Panels panels;
        T::load(panels, panel, t.block_bytes);
        panel += kPanelStep;
        EQT_UNROLL for (std::size_t i = 0; i < T::kRows; ++i) {
          const auto row = Isa::row(rows + i * kStepBytes);
          EQT_UNROLL for (std::size_t p = 0; p < T::kParts; ++p) {
            sums[i][p] = Isa::dot_gradient(sums[i][p], row, panels[p]);
          }
        }
        rows += T::kRows * kStepBytes;
      }
    }
    EQT_UNROLL for (std::size_t i = 0; i < T::kRows; ++i) {
      const std::int32_t correction = t.correction[group * T::kRows + i];
      const float scale = t.groups[group].scale;
      float* const to = direct ? t.to[i] : copy[i];
      EQT_UNROLL for (std::size_t p = 0; p < T::kParts; ++p) {
        Isa::add(to + p * Isa::kWidth, sums[i][p], correction, scale);
      }
    }
  }
  for (std::size_t i = 0; !direct && i < T::kRows; ++i)
    for (std::size_t lane = 0; lane < t.lanes; ++lane) t.to[i][lane] = copy[i][lane];
}

template <class Isa>
std::size_t repeat_dot(std::size_t repetitions) {
  constexpr std::size_t kSums = 12;  // enough to hide the latency
  const std::byte ones[kPanelStep] = {std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}};
  typename Isa::Sums sums[kSums];
  EQT_UNROLL for (std::size_t i = 0; i < kSums; ++i) sums[i] = Isa::zero();
  auto row = Isa::row(ones);
  const auto panel = Isa::panel(ones);
  for (std::size_t r = 0; r < repetitions; ++r) {
    EQT_UNROLL for (std::size_t i = 0; i < kSums; ++i) {
      Isa::keep(row);
      sums[i] = Isa::dot(sums[i], row, panel);
    }
  }
  const std::int32_t correction[kLanes] = {};
  const float lane_scales[kLanes] = {};
  volatile float sink = 0;
  EQT_UNROLL for (std::size_t i = 0; i < kSums; ++i) {
    float out[kLanes];
    Isa::store(out, sums[i], correction, 1.0f, lane_scales);
    sink = sink + out[0];
  }
  return repetitions * kSums * Isa::kWidth * (kStepBytes / sizeof(typename Isa::Element));
}

/// The table of a family; a function for two blocks only where the registers hold them.
template <class Isa>
constexpr TileKernels tile_kernels() {
  TileKernels kernels{sizeof(typename Isa::Element),
                      Isa::kOffset,
                      Isa::kRows,
                      Isa::kMostBlocks,
                      store_all<Isa>,
                      {accumulate_tile<Isa, 1>, nullptr},
                      repeat_dot<Isa>};
  if constexpr (Isa::kMostBlocks == 2) kernels.accumulate[1] = accumulate_tile<Isa, 2>;
  return kernels;
}

}  // namespace
}  // namespace eqt::int8
