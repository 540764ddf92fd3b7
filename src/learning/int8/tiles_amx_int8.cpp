// SPDX-License-Identifier: Apache-2.0
// tdpbssd: 16 x 16 sums of 64 products of signed bytes, on registers of 16 rows of 64 bytes. Four
// of them are the sums of 32 rows by 32 lanes. A panel's 16 steps are such a register as they lie;
// rows are copied into whole ones first, or turned.
#include <immintrin.h>

#include "int8/tiles.hpp"

namespace eqt::int8 {
namespace {

constexpr std::size_t kRows = 32, kHalf = 16, kWide = 2 * kLanes;
constexpr std::size_t kProductSteps = 16, kProductBytes = kProductSteps * kStepBytes;
constexpr std::size_t kPanelBytes = kProductSteps * kPanelStep;  // of a product
constexpr std::size_t kTurnedBytes = kRows * kProductBytes;      // of a product of a gradient
constexpr std::size_t kCopiedRows = 128;

/// The shapes of the registers (Intel SDM, volume 1, 18.2): all of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constinit const TileConfiguration kConfiguration;

void begin() { _tile_loadconfig(&kConfiguration); }

/// A thread without tiles is cheaper to switch, and its signal frames are smaller.
void end() { _tile_release(); }

/// The compiler does not know that tiles are loaded from memory.
[[gnu::always_inline]] inline void finish_stores() { asm volatile("" ::: "memory"); }

// Registers: sums are 0 to 3, by halves of rows, then blocks; rows are 4 and 5, a panel is 6 and 7.

template <std::size_t kHalves, std::size_t kBlocks>
[[gnu::always_inline]] inline void clear() {
  _tile_zero(0);
  if constexpr (kBlocks == 2) _tile_zero(1);
  if constexpr (kHalves == 2) _tile_zero(2);
  if constexpr (kHalves == 2 && kBlocks == 2) _tile_zero(3);
}

template <std::size_t kHalves, std::size_t kBlocks>
[[gnu::always_inline]] inline void add_products(const std::byte* rows, std::size_t row_bytes,
                                                std::size_t next_rows, const std::byte* panel,
                                                std::size_t block_bytes, std::size_t products) {
  for (; products > 0; --products, rows += next_rows, panel += kPanelBytes) {
    _tile_loadd(4, rows, row_bytes);
    _tile_loadd(6, panel, kPanelStep);
    _tile_dpbssd(0, 4, 6);
    if constexpr (kBlocks == 2) {
      _tile_loadd(7, panel + block_bytes, kPanelStep);
      _tile_dpbssd(1, 4, 7);
    }
    if constexpr (kHalves == 2) {
      _tile_loadd(5, rows + kHalf * row_bytes, row_bytes);
      _tile_dpbssd(2, 5, 6);
      if constexpr (kBlocks == 2) _tile_dpbssd(3, 5, 7);
    }
  }
}

using Sums = std::int32_t[kRows][kWide];

template <std::size_t kHalves, std::size_t kBlocks>
[[gnu::always_inline]] inline void keep_sums(Sums& sums) {
  constexpr std::size_t kBytes = sizeof sums[0];
  _tile_stored(0, sums[0], kBytes);
  if constexpr (kBlocks == 2) _tile_stored(1, sums[0] + kLanes, kBytes);
  if constexpr (kHalves == 2) _tile_stored(2, sums[kHalf], kBytes);
  if constexpr (kHalves == 2 && kBlocks == 2) _tile_stored(3, sums[kHalf] + kLanes, kBytes);
}

__mmask16 mask_of(std::size_t lanes) {
  return static_cast<__mmask16>(lanes >= kLanes ? 0xFFFF : (1u << lanes) - 1);
}

// The forms without masks make GCC 12 warn of a vector that is not initialized.
__m512 to_floats(__m512i sums) { return _mm512_maskz_cvtepi32_ps(0xFFFF, sums); }

/// Copies the runs of rows, one run behind the other, to t.copies.
void copy_rows(const StoreTiles& t, std::size_t first, std::size_t count) {
  const std::size_t bytes = t.steps * kStepBytes, whole = bytes / 64 * 64;
  const __mmask64 rest = (std::uint64_t{1} << (bytes - whole)) - 1;
  std::byte* to = t.copies;
  for (std::size_t i = 0; i < count; ++i, to += t.copy_bytes) {
    const std::byte* const row = t.rows[first + i];
    std::byte* at = to;
    for (std::size_t run = 0; run < t.run_count; ++run, at += bytes) {
      const std::byte* const from = row + t.runs[run];
      for (std::size_t b = 0; b < whole; b += 64)
        _mm512_storeu_si512(at + b, _mm512_loadu_si512(from + b));
      if (rest != 0) _mm512_storeu_si512(at + whole, _mm512_maskz_loadu_epi8(rest, from + whole));
    }
  }
  finish_stores();
}

/// Stores lanes [first_lane, first_lane + lanes) of copied rows; `row` is the first of them.
template <std::size_t kBlocks>
void store_tile(const StoreTiles& t, const std::byte* copies, std::size_t row,
                std::size_t first_lane, std::size_t lanes) {
  alignas(64) Sums sums;
  clear<2, kBlocks>();
  add_products<2, kBlocks>(copies, t.copy_bytes, kProductBytes,
                           t.panel + first_lane / kLanes * t.block_bytes, t.block_bytes,
                           t.block_bytes / kPanelBytes);
  keep_sums<2, kBlocks>(sums);
  __m512i correction[kBlocks];
  __m512 lane_scales[kBlocks];
  __mmask16 masks[kBlocks];
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const std::size_t lane = first_lane + b * kLanes;
    correction[b] = _mm512_loadu_si512(t.correction + lane);
    lane_scales[b] = _mm512_loadu_ps(t.lane_scales + lane);
    masks[b] = mask_of(lanes - b * kLanes);
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    float* const to = t.to[row + i] + first_lane;
    const __m512 scale = _mm512_set1_ps(t.scales[row + i]);
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const __m512i exact =
          _mm512_sub_epi32(_mm512_load_si512(sums[i] + b * kLanes), correction[b]);
      const __m512 factor = _mm512_mul_ps(scale, lane_scales[b]);
      _mm512_mask_storeu_ps(to + b * kLanes, masks[b], _mm512_mul_ps(to_floats(exact), factor));
    }
  }
}

void store(const StoreTiles& t) {
  const std::size_t rows = t.tiles * kRows;
  for (std::size_t first = 0; first < rows; first += kCopiedRows) {
    const std::size_t count = rows - first < kCopiedRows ? rows - first : kCopiedRows;
    copy_rows(t, first, count);
    for (std::size_t lane = 0; lane < t.lanes; lane += kWide) {
      const std::size_t lanes = t.lanes - lane < kWide ? t.lanes - lane : kWide;
      for (std::size_t row = 0; row < count; row += kRows) {
        const std::byte* const copies = t.copies + row * t.copy_bytes;
        if (lanes > kLanes)
          store_tile<2>(t, copies, first + row, lane, lanes);
        else
          store_tile<1>(t, copies, first + row, lane, lanes);
      }
    }
  }
}

template <std::size_t kHalves, std::size_t kBlocks>
void accumulate_halves(const GradientTile& t) {
  alignas(64) Sums sums;
  // Rows of dw are far apart, so values that are added to more than once are copied here.
  alignas(64) float copy[kHalves * kHalf][kWide];
  const std::byte* rows = t.rows;
  const std::ptrdiff_t* next_run = t.runs;
  __mmask16 masks[kBlocks];
  for (std::size_t b = 0; b < kBlocks; ++b) masks[b] = mask_of(t.lanes - b * kLanes);
  for (std::size_t i = 0; i < t.row_count; ++i)
    for (std::size_t b = 0; b < kBlocks; ++b) __builtin_prefetch(t.to[i] + b * kLanes, 1);
  for (std::size_t group = 0; group < t.group_count; ++group) {
    const std::size_t products = t.groups[group].steps / kProductSteps;
    clear<kHalves, kBlocks>();
    for (std::size_t run = 0; run < t.groups[group].runs; ++run, rows += products * kTurnedBytes)
      add_products<kHalves, kBlocks>(rows, kProductBytes, kTurnedBytes, t.panel + *next_run++,
                                     t.block_bytes, products);
    keep_sums<kHalves, kBlocks>(sums);
    const bool first = group == 0, last = group + 1 == t.group_count;
    const std::int32_t* const corrections = t.correction + group * kRows;
    const __m512 scale = _mm512_set1_ps(t.groups[group].scale);
    for (std::size_t i = 0; i < t.row_count; ++i) {
      float* const to = t.to[i];
      const __m512i correction = _mm512_set1_epi32(corrections[i]);
      for (std::size_t b = 0; b < kBlocks; ++b) {
        const __m512i exact = _mm512_sub_epi32(_mm512_load_si512(sums[i] + b * kLanes), correction);
        const __m512 product = _mm512_mul_ps(to_floats(exact), scale);
        float* const copied = copy[i] + b * kLanes;
        const __m512 before =
            first ? _mm512_maskz_loadu_ps(masks[b], to + b * kLanes) : _mm512_load_ps(copied);
        const __m512 after = _mm512_add_ps(before, product);
        if (last)
          _mm512_mask_storeu_ps(to + b * kLanes, masks[b], after);
        else
          _mm512_store_ps(copied, after);
      }
    }
  }
}

template <std::size_t kBlocks>
void accumulate(const GradientTile& t) {
  finish_stores();
  t.row_count > kHalf ? accumulate_halves<2, kBlocks>(t) : accumulate_halves<1, kBlocks>(t);
}

__m512i low_pairs(__m512i a, __m512i b) { return _mm512_maskz_unpacklo_epi32(0xFFFF, a, b); }
__m512i high_pairs(__m512i a, __m512i b) { return _mm512_maskz_unpackhi_epi32(0xFFFF, a, b); }
__m512i low_fours(__m512i a, __m512i b) { return _mm512_maskz_unpacklo_epi64(0xFF, a, b); }
__m512i high_fours(__m512i a, __m512i b) { return _mm512_maskz_unpackhi_epi64(0xFF, a, b); }
/// These take parts of 128 bits: the first and third of a, then of b; or the second and fourth.
__m512i even_parts(__m512i a, __m512i b) { return _mm512_maskz_shuffle_i32x4(0xFFFF, a, b, 0x88); }
__m512i odd_parts(__m512i a, __m512i b) { return _mm512_maskz_shuffle_i32x4(0xFFFF, a, b, 0xDD); }

/// Transposes a matrix of 16 x 16 values of 4 bytes.
void turn_product(const std::byte* from, std::byte* to) {
  __m512i a[16], b[16];
  for (std::size_t i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(from + i * kPanelStep);
  // Within every 128 bits: of 4 rows each, first pairs, then pairs of pairs.
  for (std::size_t i = 0; i < 16; i += 2) {
    b[i] = low_pairs(a[i], a[i + 1]);
    b[i + 1] = high_pairs(a[i], a[i + 1]);
  }
  for (std::size_t i = 0; i < 16; i += 4) {
    a[i] = low_fours(b[i], b[i + 2]);
    a[i + 1] = high_fours(b[i], b[i + 2]);
    a[i + 2] = low_fours(b[i + 1], b[i + 3]);
    a[i + 3] = high_fours(b[i + 1], b[i + 3]);
  }
  // a[4 g + j] has the columns j, j + 4, j + 8 and j + 12 of rows 4 g to 4 g + 3.
  for (std::size_t j = 0; j < 4; ++j) {
    const __m512i even = even_parts(a[j], a[4 + j]), odd = odd_parts(a[j], a[4 + j]);
    const __m512i later_even = even_parts(a[8 + j], a[12 + j]);
    const __m512i later_odd = odd_parts(a[8 + j], a[12 + j]);
    std::byte* const row = to + j * kProductBytes;
    _mm512_store_si512(row, even_parts(even, later_even));
    _mm512_store_si512(row + 4 * kProductBytes, even_parts(odd, later_odd));
    _mm512_store_si512(row + 8 * kProductBytes, odd_parts(even, later_even));
    _mm512_store_si512(row + 12 * kProductBytes, odd_parts(odd, later_odd));
  }
}

void turn(const std::byte* block, std::size_t steps, std::size_t first_row, std::byte* tile) {
  std::byte* to = tile + first_row * kProductBytes;
  for (std::size_t step = 0; step < steps; step += kProductSteps, to += kTurnedBytes)
    turn_product(block + step * kPanelStep, to);
}

std::size_t repeat(std::size_t repetitions) {
  begin();
  clear<2, 2>();
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (std::size_t r = 0; r < repetitions; ++r) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  end();
  return repetitions * kRows * kWide * kProductBytes;
}

}  // namespace

constinit const TileKernels kAmxInt8Tiles = {.element_bytes = 1,
                                             .offset = 0,
                                             .rows = kRows,
                                             .blocks = 2,
                                             .store = store,
                                             .accumulate = {accumulate<1>, accumulate<2>},
                                             .repeat = repeat,
                                             .product_steps = kProductSteps,
                                             .copied_rows = kCopiedRows,
                                             .turn = turn,
                                             .begin = begin,
                                             .end = end};

}  // namespace eqt::int8
