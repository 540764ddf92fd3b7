// SPDX-License-Identifier: Apache-2.0
#include "optim/orthogonal.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/orthogonal.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef EQT_OPTIM_ORTHOGONAL_ONCE
#define EQT_OPTIM_ORTHOGONAL_ONCE
namespace eqt::optim {

constexpr std::size_t kPanelColumns = 32;  // of the right factor, computed together
constexpr std::size_t kPanelDepth = 256;   // of its rows, which stay in the first cache

/// A product left * right of row-major matrices.
struct Product {
  std::size_t rows, depth, columns;
  const float *left, *right;  // (rows, depth), (depth, columns)
  float* out;                 // (rows, columns)
  bool is_symmetric;          // only what is on the diagonal and to the right of it is needed
  float* panel;               // (kPanelDepth, kPanelColumns)
};

}  // namespace eqt::optim
#endif

HWY_BEFORE_NAMESPACE();
namespace eqt::optim::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPanelColumns>;
constexpr std::size_t kLanes = hn::MaxLanes(Tag());
// Sums in registers, of which AVX-512 and NEON have 32, else there are 16.
constexpr std::size_t kVectors = HWY_MAX_BYTES >= 32 ? 2 : 4;
constexpr std::size_t kColumns = kVectors * kLanes;
static_assert(kPanelColumns % kColumns == 0);
constexpr std::size_t kRows = HWY_MAX_BYTES >= 64                   ? 12
                              : HWY_MAX_BYTES == 16 && HWY_ARCH_X86 ? 2
                                                                    : 5;

/// Adds `depth` products to kCount rows of sums, in the order of their indices.
template <std::size_t kCount>
HWY_INLINE void add_products(std::size_t depth, const float* HWY_RESTRICT left,
                             std::size_t left_row, const float* HWY_RESTRICT panel,
                             float* HWY_RESTRICT out, std::size_t out_row) {
  hn::Vec<Tag> sums[kCount][kVectors];
  for (std::size_t r = 0; r < kCount; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[r][v] = hn::LoadU(Tag(), out + r * out_row + v * kLanes);
  for (std::size_t k = 0; k < depth; ++k) {
    hn::Vec<Tag> right[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v)
      right[v] = hn::LoadU(Tag(), panel + k * kPanelColumns + v * kLanes);
    for (std::size_t r = 0; r < kCount; ++r) {
      const auto factor = hn::Set(Tag(), left[r * left_row + k]);
      for (std::size_t v = 0; v < kVectors; ++v)
        sums[r][v] = hn::Add(sums[r][v], hn::Mul(factor, right[v]));
    }
  }
  for (std::size_t r = 0; r < kCount; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[r][v], Tag(), out + r * out_row + v * kLanes);
}

/// Adds to one row of `columns` columns, fewer than a tile has.
HWY_INLINE void add_products_at_edge(std::size_t depth, std::size_t columns,
                                     const float* HWY_RESTRICT left,
                                     const float* HWY_RESTRICT panel, float* HWY_RESTRICT out) {
  float sums[kColumns] = {};
  std::copy_n(out, columns, sums);
  add_products<1>(depth, left, 0, panel, sums, 0);
  std::copy_n(sums, columns, out);
}

/// All rows from `first` on of `columns` columns.
void add_columns(const Product& p, std::size_t first, std::size_t k, std::size_t depth,
                 std::size_t column, std::size_t columns, const float* panel) {
  const float* left = p.left + k;
  float* out = p.out + column;
  std::size_t row = first;
  if (columns == kColumns) {
    for (; row + kRows <= p.rows; row += kRows)
      add_products<kRows>(depth, left + row * p.depth, p.depth, panel, out + row * p.columns,
                          p.columns);
    for (; row < p.rows; ++row)
      add_products<1>(depth, left + row * p.depth, p.depth, panel, out + row * p.columns,
                      p.columns);
  }
  for (; row < p.rows; ++row)
    add_products_at_edge(depth, columns, left + row * p.depth, panel, out + row * p.columns);
}

void multiply(const Product& p) {
  std::fill_n(p.out, p.rows * p.columns, 0.0f);
  for (std::size_t column = 0; column < p.columns; column += kPanelColumns) {
    const std::size_t wide = std::min(kPanelColumns, p.columns - column);
    for (std::size_t k = 0; k < p.depth; k += kPanelDepth) {
      const std::size_t depth = std::min(kPanelDepth, p.depth - k);
      std::fill_n(p.panel, depth * kPanelColumns, 0.0f);
      for (std::size_t i = 0; i < depth; ++i)
        std::copy_n(p.right + (k + i) * p.columns + column, wide, p.panel + i * kPanelColumns);
      Product part = p;
      if (p.is_symmetric) part.rows = std::min(p.rows, column + wide);
      for (std::size_t at = 0; at < wide; at += kColumns)
        add_columns(part, 0, k, depth, column + at, std::min(kColumns, wide - at), p.panel + at);
    }
  }
}

}  // namespace eqt::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eqt::optim {
namespace {

HWY_EXPORT(multiply);

void transpose(std::size_t rows, std::size_t columns, const float* from, float* to) {
  constexpr std::size_t kBlock = 16;  // whose rows stay in the cache
  for (std::size_t i = 0; i < rows; i += kBlock)
    for (std::size_t j = 0; j < columns; j += kBlock)
      for (std::size_t r = i; r < std::min(rows, i + kBlock); ++r)
        for (std::size_t c = j; c < std::min(columns, j + kBlock); ++c)
          to[c * rows + r] = from[r * columns + c];
}

/// Copies what is right of the diagonal to the other side of it.
void mirror(std::size_t side, float* matrix) {
  for (std::size_t i = 1; i < side; ++i)
    for (std::size_t j = 0; j < i; ++j) matrix[i * side + j] = matrix[j * side + i];
}

double frobenius_norm(std::span<const float> matrix) {
  double sum = 0;
  for (const float x : matrix) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

}  // namespace

void Orthogonalizer::apply(std::size_t rows, std::size_t columns, int iterations,
                           std::span<float> matrix) {
  EQT_CHECK(matrix.size() == rows * columns, "{} values of {} x {}", matrix.size(), rows, columns);
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
  constexpr double kLeast = 1e-7;
  // The smaller side makes the smaller product X X'.
  const bool turned = rows > columns;
  const std::size_t side = std::min(rows, columns), length = std::max(rows, columns);
  x_.resize(matrix.size());
  transposed_.resize(matrix.size());
  gram_.resize(side * side);
  polynomial_.resize(side * side);
  panel_.resize(kPanelDepth * kPanelColumns);
  if (turned)
    transpose(rows, columns, matrix.data(), x_.data());
  else
    std::ranges::copy(matrix, x_.begin());
  const auto scale = static_cast<float>(1 / (frobenius_norm(x_) + kLeast));
  for (float& x : x_) x *= scale;
  const auto product = [&](const float* left, std::size_t depth, const float* right,
                           std::size_t width, float* out, bool symmetric) {
    HWY_DYNAMIC_DISPATCH(multiply)
    ({.rows = side,
      .depth = depth,
      .columns = width,
      .left = left,
      .right = right,
      .out = out,
      .is_symmetric = symmetric,
      .panel = panel_.data()});
    if (symmetric) mirror(side, out);
  };
  for (int i = 0; i < iterations; ++i) {
    transpose(side, length, x_.data(), transposed_.data());
    product(x_.data(), length, transposed_.data(), side, gram_.data(), true);
    product(gram_.data(), side, gram_.data(), side, polynomial_.data(), true);
    for (std::size_t j = 0; j < gram_.size(); ++j)
      polynomial_[j] = kB * gram_[j] + kC * polynomial_[j];
    product(polynomial_.data(), side, x_.data(), length, transposed_.data(), false);
    for (std::size_t j = 0; j < x_.size(); ++j) x_[j] = kA * x_[j] + transposed_[j];
  }
  if (turned)
    transpose(columns, rows, x_.data(), matrix.data());
  else
    std::ranges::copy(x_, matrix.begin());
}

}  // namespace eqt::optim
#endif
