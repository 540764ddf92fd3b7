// SPDX-License-Identifier: Apache-2.0
#include "codec/low_rank/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codec/low_rank/low_rank.hpp"
#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/low_rank/spectrum.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::CappedTag<double, 16>;
constexpr std::size_t kStep = hn::MaxLanes(F64());
// G is computed in tiles of kTileRows x kTileColumns, kept in registers over a block of rows of M.
constexpr std::size_t kTileColumns = 16;
constexpr std::size_t kVectors = kTileColumns / kStep;
constexpr std::size_t kTileRows = kStep == 8 ? 8 : kStep == 4 ? 2 : 1;
constexpr std::size_t kBlockRows = 32;  // of M, in float64: 16 KiB

HWY_INLINE void AddTile(const double* block, std::size_t rows, std::size_t stride, std::size_t a,
                        std::size_t b, double* HWY_RESTRICT g) {
  const F64 d;
  hn::Vec<F64> sums[kTileRows][kVectors];
  for (std::size_t i = 0; i < kTileRows; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::LoadU(d, g + (a + i) * stride + b + v * kStep);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    const double* const row = block + r * stride;
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto right = hn::LoadU(d, row + b + v * kStep);
      for (std::size_t i = 0; i < kTileRows; ++i) {
        sums[i][v] = hn::Add(sums[i][v], hn::Mul(hn::Set(d, row[a + i]), right));
      }
    }
  }
  for (std::size_t i = 0; i < kTileRows; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[i][v], d, g + (a + i) * stride + b + v * kStep);
    }
  }
}

// G = M^T M, `stride` columns of which those from `columns` on are 0. Rows of M are added in order.
void Gram(const float* m, std::size_t rows, std::size_t columns, std::size_t stride, double* block,
          double* g) {
  std::fill(g, g + stride * stride, 0.0);
  std::fill(block, block + kBlockRows * stride, 0.0);
  for (std::size_t first = 0; first < rows; first += kBlockRows) {
    const std::size_t n = std::min(kBlockRows, rows - first);
    for (std::size_t r = 0; r < n; ++r) {
      const float* const from = m + (first + r) * columns;
      for (std::size_t j = 0; j < columns; ++j)
        block[r * stride + j] = static_cast<double>(from[j]);
    }
    for (std::size_t b = 0; b < stride; b += kTileColumns) {
      for (std::size_t a = 0; a < b + kTileColumns; a += kTileRows) {
        AddTile(block, n, stride, a, b, g);
      }
    }
  }
  for (std::size_t a = 0; a < stride; ++a) {
    for (std::size_t b = 0; b < a; ++b) g[a * stride + b] = g[b * stride + a];
  }
}

// (x, y) = (c x - s y, s x + c y), `stride` values each.
HWY_INLINE void Rotate(double c, double s, std::size_t stride, double* HWY_RESTRICT x,
                       double* HWY_RESTRICT y) {
  const F64 d;
  const auto cosine = hn::Set(d, c), sine = hn::Set(d, s);
  for (std::size_t k = 0; k < stride; k += kStep) {
    const auto a = hn::LoadU(d, x + k), b = hn::LoadU(d, y + k);
    hn::StoreU(hn::Sub(hn::Mul(cosine, a), hn::Mul(sine, b)), d, x + k);
    hn::StoreU(hn::Add(hn::Mul(sine, a), hn::Mul(cosine, b)), d, y + k);
  }
}

// Makes g[p][q] zero by a rotation, which is also applied to the rows of v.
HWY_INLINE void Annihilate(std::size_t p, std::size_t q, std::size_t columns, std::size_t stride,
                           double* g, double* v) {
  double* const gp = g + p * stride;
  double* const gq = g + q * stride;
  const double off = gp[q], low = gp[p], high = gq[q];
  const double theta = (high - low) / (2 * off);
  const double t = (theta < 0 ? -1.0 : 1.0) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1);
  Rotate(c, t * c, stride, gp, gq);
  gp[p] = low - t * off;
  gq[q] = high + t * off;
  gp[q] = gq[p] = 0;
  for (std::size_t k = 0; k < columns; ++k) {
    g[k * stride + p] = gp[k];
    g[k * stride + q] = gq[k];
  }
  Rotate(c, t * c, stride, v + p * stride, v + q * stride);
}

// Sweeps over all pairs until all elements off the diagonal of G are negligible. v: rows are
// eigenvectors.
void Diagonalise(std::size_t columns, std::size_t stride, double* g, double* v) {
  constexpr int kMaxSweeps = 30;         // six to nine are needed
  constexpr double kNegligible = 1e-20;  // square of a cosine: 1e-10
  constexpr double kNoise = 1e-15;       // of the trace: float64's rounding
  std::fill(v, v + stride * stride, 0.0);
  double trace = 0;
  for (std::size_t i = 0; i < columns; ++i) {
    v[i * stride + i] = 1;
    trace += g[i * stride + i];
  }
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool rotated = false;
    for (std::size_t p = 0; p + 1 < columns; ++p) {
      for (std::size_t q = p + 1; q < columns; ++q) {
        const double off = g[p * stride + q];
        const double product = g[p * stride + p] * g[q * stride + q];
        if (off * off <= kNegligible * product || std::abs(off) <= kNoise * trace) continue;
        Annihilate(p, q, columns, stride, g, v);
        rotated = true;
      }
    }
    if (!rotated) return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {
namespace {

HWY_EXPORT(Gram);
HWY_EXPORT(Diagonalise);

// Both a multiple of every target's tiles.
constexpr std::size_t kPadding = 16;
constexpr std::size_t kBlock = 32;

}  // namespace

void spectrum(std::span<const float> m, std::size_t columns, Workspace& workspace,
              std::span<double> singular, std::span<double> vectors) {
  EQT_CHECK(columns > 0 && columns <= kMaxColumns && m.size() % columns == 0,
            "{} values in {} columns", m.size(), columns);
  EQT_CHECK(singular.size() == columns && vectors.size() == columns * columns,
            "{} singular values, vectors of {} values in all", singular.size(), vectors.size());
  const std::size_t stride = (columns + kPadding - 1) / kPadding * kPadding;
  const auto scratch = workspace.array(kGramMatrices, (2 * stride + kBlock) * stride);
  double* const g = scratch.data();
  double* const v = g + stride * stride;
  HWY_DYNAMIC_DISPATCH(Gram)(m.data(), m.size() / columns, columns, stride, v + stride * stride, g);
  double trace = 0;
  for (std::size_t i = 0; i < columns; ++i) trace += g[i * stride + i];
  if (!std::isfinite(trace)) {
    std::fill(singular.begin(), singular.end(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  HWY_DYNAMIC_DISPATCH(Diagonalise)(columns, stride, g, v);
  for (std::size_t i = 0; i < columns; ++i) {
    singular[i] = std::sqrt(std::max(0.0, g[i * stride + i]));
    std::copy_n(v + i * stride, columns,
                vectors.begin() + static_cast<std::ptrdiff_t>(i * columns));
  }
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
