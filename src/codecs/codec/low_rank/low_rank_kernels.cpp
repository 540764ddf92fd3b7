// SPDX-License-Identifier: Apache-2.0
// The products of low_rank.hpp.

#include "codec/low_rank/low_rank.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/low_rank/low_rank_kernels.cpp"
#include "hwy/foreach_target.h"  // must precede highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eqt::codec {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using F64 = hn::CappedTag<double, 16>;
using V32 = hn::Vec<F32>;
constexpr std::size_t kLanes = hn::MaxLanes(F32());
constexpr std::size_t kSums = 16;               // partial sums of a dot product
constexpr std::size_t kParts = kSums / kLanes;  // vectors that hold them
// Rows at a time: as many as accumulators fit into registers. Results do not depend on it.
constexpr std::size_t kDotRows = kParts == 1 ? 4 : kParts == 2 ? 2 : 1;
constexpr std::size_t kGroup = 8;  // rows whose products are added pairwise

template <typename T>
T AddPairwise(T* sums) {
  for (std::size_t width = kSums / 2; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
  return sums[0];
}

// kRows rows of M times kRank vectors of Q.
template <std::size_t kRows, std::size_t kRank>
HWY_INLINE void MultiplyRows(const float* HWY_RESTRICT m, const float* HWY_RESTRICT q,
                             std::size_t columns, std::size_t p_stride, float* HWY_RESTRICT p) {
  const F32 d;
  V32 sums[kRows][kRank][kParts];
  for (auto& row : sums) {
    for (auto& vectors : row) {
      for (auto& sum : vectors) sum = hn::Zero(d);
    }
  }
  const auto add = [&](const float* from, std::size_t m_stride, const float* with,
                       std::size_t q_stride) HWY_ATTR {
    for (std::size_t part = 0; part < kParts; ++part) {
      V32 right[kRank];
      for (std::size_t k = 0; k < kRank; ++k) {
        right[k] = hn::LoadU(d, with + k * q_stride + part * kLanes);
      }
      for (std::size_t i = 0; i < kRows; ++i) {
        const auto left = hn::LoadU(d, from + i * m_stride + part * kLanes);
        for (std::size_t k = 0; k < kRank; ++k) {
          sums[i][k][part] = hn::Add(sums[i][k][part], hn::Mul(left, right[k]));
        }
      }
    }
  };
  std::size_t j = 0;
  for (; j + kSums <= columns; j += kSums) add(m + j, columns, q + j, columns);
  if (j < columns) {
    float last_m[kRows * kSums] = {}, last_q[kRank * kSums] = {};
    const std::size_t bytes = (columns - j) * sizeof(float);
    for (std::size_t i = 0; i < kRows; ++i) {
      std::memcpy(last_m + i * kSums, m + i * columns + j, bytes);
    }
    for (std::size_t k = 0; k < kRank; ++k) {
      std::memcpy(last_q + k * kSums, q + k * columns + j, bytes);
    }
    add(last_m, kSums, last_q, kSums);
  }
  for (std::size_t k = 0; k < kRank; ++k) {
    for (std::size_t i = 0; i < kRows; ++i) {
      float lanes[kSums];
      for (std::size_t part = 0; part < kParts; ++part) {
        hn::StoreU(sums[i][k][part], d, lanes + part * kLanes);
      }
      p[k * p_stride + i] = AddPairwise(lanes);
    }
  }
}

// All vectors of Q with the same rows, which stay in the cache.
template <std::size_t kRows>
void MultiplyAllRanks(const float* m, const float* q, const FactorShape& shape, float* p) {
  const std::size_t n = shape.rows, c = shape.columns;
  std::size_t k = 0;
  for (; k + 4 <= shape.rank; k += 4) MultiplyRows<kRows, 4>(m, q + k * c, c, n, p + k * n);
  switch (shape.rank - k) {
    case 3:
      return MultiplyRows<kRows, 3>(m, q + k * c, c, n, p + k * n);
    case 2:
      return MultiplyRows<kRows, 2>(m, q + k * c, c, n, p + k * n);
    case 1:
      return MultiplyRows<kRows, 1>(m, q + k * c, c, n, p + k * n);
    default:
      return;
  }
}

void Multiply(const float* m, const float* q, const FactorShape& shape, float* p) {
  std::size_t i = 0;
  for (; i + kDotRows <= shape.rows; i += kDotRows) {
    MultiplyAllRanks<kDotRows>(m + i * shape.columns, q, shape, p + i);
  }
  for (; i < shape.rows; ++i) MultiplyAllRanks<1>(m + i * shape.columns, q, shape, p + i);
}

// q[k][j] += the pairwise sum over eight rows.
template <std::size_t kRank>
HWY_INLINE void AddGroup(const float* const* rows, const float (*p)[kGroup], std::size_t columns,
                         float* HWY_RESTRICT q) {
  const F32 d;
  V32 left[kRank][kGroup];
  for (std::size_t k = 0; k < kRank; ++k) {
    for (std::size_t i = 0; i < kGroup; ++i) left[k][i] = hn::Set(d, p[k][i]);
  }
  std::size_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    V32 m[kGroup];
    for (std::size_t i = 0; i < kGroup; ++i) m[i] = hn::LoadU(d, rows[i] + j);
    for (std::size_t k = 0; k < kRank; ++k) {
      const auto product = [&](std::size_t i) HWY_ATTR { return hn::Mul(left[k][i], m[i]); };
      const auto low = hn::Add(hn::Add(product(0), product(1)), hn::Add(product(2), product(3)));
      const auto high = hn::Add(hn::Add(product(4), product(5)), hn::Add(product(6), product(7)));
      float* const to = q + k * columns + j;
      hn::StoreU(hn::Add(hn::LoadU(d, to), hn::Add(low, high)), d, to);
    }
  }
  for (; j < columns; ++j) {
    for (std::size_t k = 0; k < kRank; ++k) {
      const auto product = [&](std::size_t i) { return p[k][i] * rows[i][j]; };
      const float low = (product(0) + product(1)) + (product(2) + product(3));
      const float high = (product(4) + product(5)) + (product(6) + product(7));
      q[k * columns + j] += low + high;
    }
  }
}

template <std::size_t kRank>
HWY_INLINE void AddGroupOfRank(const float* const* group, const float* p, std::size_t first_row,
                               const FactorShape& shape, float* q) {
  float left[kRank][kGroup] = {};
  const std::size_t there = std::min(kGroup, shape.rows - first_row);
  for (std::size_t k = 0; k < kRank; ++k) {
    std::memcpy(left[k], p + k * shape.rows + first_row, there * sizeof(float));
  }
  AddGroup<kRank>(group, left, shape.columns, q);
}

void MultiplyTransposed(const float* m, const float* p, const FactorShape& shape, float* q) {
  const std::size_t n = shape.rows, c = shape.columns;
  std::fill(q, q + shape.right(), 0.0f);
  for (std::size_t i = 0; i < n; i += kGroup) {
    // For a missing row, any row is multiplied by +0.
    const float* group[kGroup];
    for (std::size_t g = 0; g < kGroup; ++g) group[g] = m + (i + g < n ? i + g : i) * c;
    std::size_t k = 0;
    for (; k + 2 <= shape.rank; k += 2) {
      AddGroupOfRank<2>(group, p + k * n, i, shape, q + k * c);
    }
    if (k < shape.rank) AddGroupOfRank<1>(group, p + k * n, i, shape, q + k * c);
  }
}

// The two kinds of expansion: what happens to the decoded values.
struct Assign {
  HWY_INLINE V32 operator()(V32 /*old*/, V32 value) const { return value; }
  float operator()(float /*old*/, float value) const { return value; }
};
struct AddScaled {
  HWY_INLINE V32 operator()(V32 old, V32 value) const {
    return hn::Add(old, hn::Mul(hn::Set(F32(), scale), value));
  }
  float operator()(float old, float value) const { return old + scale * value; }
  float scale;
};

// kRows rows of `columns` values; p[k * p_stride + i], q[k * q_stride + j]. kRank 0: any rank.
template <std::size_t kRows, std::size_t kRank, typename Combine>
HWY_INLINE void ExpandRows(const float* HWY_RESTRICT p, std::size_t p_stride,
                           const float* HWY_RESTRICT q, std::size_t q_stride, std::size_t any_rank,
                           std::size_t columns, Combine combine, float* HWY_RESTRICT out) {
  const F32 d;
  const std::size_t rank = kRank == 0 ? any_rank : kRank;
  std::size_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    V32 sum[kRows];
    const auto first = hn::LoadU(d, q + j);
    for (std::size_t i = 0; i < kRows; ++i) sum[i] = hn::Mul(hn::Set(d, p[i]), first);
    for (std::size_t k = 1; k < rank; ++k) {
      const auto right = hn::LoadU(d, q + k * q_stride + j);
      for (std::size_t i = 0; i < kRows; ++i) {
        sum[i] = hn::Add(sum[i], hn::Mul(hn::Set(d, p[k * p_stride + i]), right));
      }
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      float* const to = out + i * q_stride + j;
      hn::StoreU(combine(hn::LoadU(d, to), sum[i]), d, to);
    }
  }
  for (; j < columns; ++j) {
    for (std::size_t i = 0; i < kRows; ++i) {
      float sum = p[i] * q[j];
      for (std::size_t k = 1; k < rank; ++k) sum += p[k * p_stride + i] * q[k * q_stride + j];
      out[i * q_stride + j] = combine(out[i * q_stride + j], sum);
    }
  }
}

template <std::size_t kRank, typename Combine>
void ExpandRank(const float* p, const float* q, const FactorShape& shape, Combine combine,
                float* out, std::size_t count) {
  constexpr std::size_t kRows = 4;
  const std::size_t n = shape.rows, c = shape.columns;
  const std::size_t whole_rows = c == 0 ? 0 : std::min(n, count / c);
  std::size_t i = 0;
  for (; i + kRows <= whole_rows; i += kRows) {
    ExpandRows<kRows, kRank>(p + i, n, q, c, shape.rank, c, combine, out + i * c);
  }
  for (; i < whole_rows; ++i) {
    ExpandRows<1, kRank>(p + i, n, q, c, shape.rank, c, combine, out + i * c);
  }
  if (i * c < count) {
    ExpandRows<1, kRank>(p + i, n, q, c, shape.rank, count - i * c, combine, out + i * c);
  }
}

template <typename Combine>
void ExpandWith(const float* p, const float* q, const FactorShape& shape, Combine combine,
                float* out, std::size_t count) {
  if (shape.rank == 1) return ExpandRank<1>(p, q, shape, combine, out, count);
  if (shape.rank == 2) return ExpandRank<2>(p, q, shape, combine, out, count);
  if (shape.rank == 4) return ExpandRank<4>(p, q, shape, combine, out, count);
  ExpandRank<0>(p, q, shape, combine, out, count);
}

void Expand(const float* p, const float* q, const FactorShape& shape, float* out,
            std::size_t count) {
  ExpandWith(p, q, shape, Assign(), out, count);
}

void ExpandAdd(const float* p, const float* q, const FactorShape& shape, float scale, float* out,
               std::size_t count) {
  ExpandWith(p, q, shape, AddScaled{scale}, out, count);
}

double Dot(const double* a, const double* b, std::size_t count) {
  const F64 d;
  constexpr std::size_t kStep = hn::MaxLanes(F64());
  constexpr std::size_t kVectors = kSums / kStep;
  hn::Vec<F64> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = i + v * kStep;
      sums[v] = hn::Add(sums[v], hn::Mul(hn::LoadU(d, a + at), hn::LoadU(d, b + at)));
    }
  }
  double lanes[kSums];
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, lanes + v * kStep);
  for (std::size_t k = 0; i + k < count; ++k) lanes[k] += a[i + k] * b[i + k];
  return AddPairwise(lanes);
}

void SubtractScaled(double factor, const double* HWY_RESTRICT from, std::size_t count,
                    double* HWY_RESTRICT to) {
  const F64 d;
  constexpr std::size_t kStep = hn::MaxLanes(F64());
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto product = hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + i));
    hn::StoreU(hn::Sub(hn::LoadU(d, to + i), product), d, to + i);
  }
  for (; i < count; ++i) to[i] -= factor * from[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace eqt::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::codec {

HWY_EXPORT(Multiply);
HWY_EXPORT(MultiplyTransposed);
HWY_EXPORT(Expand);
HWY_EXPORT(ExpandAdd);
HWY_EXPORT(Dot);
HWY_EXPORT(SubtractScaled);

namespace {

void check_sizes(std::size_t values, std::size_t p, std::size_t q, const FactorShape& shape) {
  EQT_CHECK(values == shape.rows * shape.columns && p == shape.left() && q == shape.right(),
            "{} values and factors of {} and {} for a {} x {} matrix of rank {}", values, p, q,
            shape.rows, shape.columns, shape.rank);
}

void check_expansion(std::size_t out, std::size_t p, std::size_t q, const FactorShape& shape) {
  EQT_CHECK(out <= shape.rows * shape.columns && shape.rank > 0, "{} values of a {} x {} matrix",
            out, shape.rows, shape.columns);
  check_sizes(shape.rows * shape.columns, p, q, shape);
}

}  // namespace

void multiply(std::span<const float> m, std::span<const float> q, const FactorShape& shape,
              std::span<float> p) {
  check_sizes(m.size(), p.size(), q.size(), shape);
  HWY_DYNAMIC_DISPATCH(Multiply)(m.data(), q.data(), shape, p.data());
}

void multiply_transposed(std::span<const float> m, std::span<const float> p,
                         const FactorShape& shape, std::span<float> q) {
  check_sizes(m.size(), p.size(), q.size(), shape);
  HWY_DYNAMIC_DISPATCH(MultiplyTransposed)(m.data(), p.data(), shape, q.data());
}

void expand(std::span<const float> p, std::span<const float> q, const FactorShape& shape,
            std::span<float> out) {
  check_expansion(out.size(), p.size(), q.size(), shape);
  HWY_DYNAMIC_DISPATCH(Expand)(p.data(), q.data(), shape, out.data(), out.size());
}

void expand_add(std::span<const float> p, std::span<const float> q, const FactorShape& shape,
                float scale, std::span<float> out) {
  check_expansion(out.size(), p.size(), q.size(), shape);
  HWY_DYNAMIC_DISPATCH(ExpandAdd)(p.data(), q.data(), shape, scale, out.data(), out.size());
}

double dot(std::span<const double> a, std::span<const double> b) {
  EQT_CHECK(a.size() == b.size(), "a dot product of {} and {} values", a.size(), b.size());
  return HWY_DYNAMIC_DISPATCH(Dot)(a.data(), b.data(), a.size());
}

void subtract_scaled(double factor, std::span<const double> from, std::span<double> to) {
  EQT_CHECK(from.size() == to.size(), "{} values from {}", from.size(), to.size());
  HWY_DYNAMIC_DISPATCH(SubtractScaled)(factor, from.data(), from.size(), to.data());
}

}  // namespace eqt::codec
#endif  // HWY_ONCE
