// SPDX-License-Identifier: Apache-2.0
#include "codec/low_rank/low_rank.hpp"

#include <algorithm>
#include <cmath>

#include "codec/finite.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::codec {
namespace {

// "Ranks" of the streams that all ranks share; no rank has these numbers.
constexpr std::uint32_t kStart = 0xFFFFFFFEu;
constexpr std::uint32_t kReplacement = 0xFFFFFFFDu;

constexpr double kDependent = 1e-12;  // share of a vector's norm: float64's noise after projection
constexpr int kMaxDraws = 64;

/// vector -= its projection onto the span of `basis`, which holds orthonormal vectors of the same
/// length.
void project_out(std::span<const double> basis, std::span<double> vector) {
  const std::size_t n = vector.size();
  for (std::size_t at = 0; at < basis.size(); at += n) {
    const auto unit = basis.subspan(at, n);
    subtract_scaled(dot(unit, vector), unit, vector);
  }
}

double norm(std::span<const double> vector) { return std::sqrt(dot(vector, vector)); }

/// Projects `vector` out of the span of `basis` and normalises it. @return false if nothing is left
bool join(std::span<const double> basis, std::span<double> vector) {
  double before = norm(vector);
  for (int pass = 0; pass < 2; ++pass) {
    if (before == 0) return false;
    project_out(basis, vector);
    const double after = norm(vector);
    if (after <= kDependent * before) return false;
    for (double& v : vector) v /= after;
    before = 1;
  }
  return true;
}

void draw_replacement(std::uint32_t column, int draw, std::span<double> vector) {
  const RandomStream stream({0, static_cast<StepId>(draw), kReplacement, column});
  for (std::size_t i = 0; i < vector.size(); ++i) {
    vector[i] = static_cast<double>(stream.bits(static_cast<std::uint32_t>(i))) - 0x1p31;
  }
}

}  // namespace

FactorShape factor_shape(std::size_t count, std::size_t rows, std::size_t rank) {
  if (rows == 0 || count == 0) return {.rows = rows, .columns = 0, .rank = 0};
  EQT_CHECK(count % rows == 0, "{} values in {} rows", count, rows);
  FactorShape shape{.rows = rows, .columns = count / rows, .rank = 0};
  const std::size_t most = std::min({rank, shape.rows, shape.columns});
  if (most * (shape.rows + shape.columns) < count) shape.rank = most;
  return shape;
}

void draw_start(std::uint64_t run_seed, std::uint32_t slice, const FactorShape& shape,
                std::span<float> q) {
  EQT_CHECK(q.size() == shape.right(), "{} values for Q", q.size());
  constexpr std::uint32_t kWords = 6;
  for (std::size_t k = 0; k < shape.rank; ++k) {
    const RandomStream stream({run_seed, 0, kStart, slice}, static_cast<std::uint32_t>(k));
    for (std::size_t j = 0; j < shape.columns; ++j) {
      std::int32_t sum = 0;
      for (std::uint32_t w = 0; w < kWords; ++w) {
        const std::uint32_t bits = stream.bits(static_cast<std::uint32_t>(j) * kWords + w);
        sum += static_cast<std::int32_t>((bits & 0xFFFFu) + (bits >> 16));
      }
      // Below 2^20, so exact in float32; variance 12 * 2^32 / 12.
      q[k * shape.columns + j] = static_cast<float>(sum - 6 * 0xFFFF) * 0x1p-16f;
    }
  }
}

bool orthonormalise(const FactorShape& shape, Workspace& workspace, std::span<float> p) {
  EQT_CHECK(shape.rank <= shape.rows && p.size() == shape.left(), "{} vectors of {} values",
            shape.rank, shape.rows);
  if (first_non_finite(p) != p.size()) return false;
  const auto exact = workspace.array(kExactVectors, p.size());
  std::copy(p.begin(), p.end(), exact.begin());
  for (std::size_t k = 0; k < shape.rank; ++k) {
    const auto basis = exact.first(k * shape.rows);
    const auto vector = exact.subspan(k * shape.rows, shape.rows);
    for (int draw = 0; !join(basis, vector); ++draw) {
      EQT_CHECK(draw < kMaxDraws, "no vector outside {} of {} dimensions", k, shape.rows);
      draw_replacement(static_cast<std::uint32_t>(k), draw, vector);
    }
  }
  std::transform(exact.begin(), exact.end(), p.begin(),
                 [](double v) { return static_cast<float>(v); });
  return true;
}

}  // namespace eqt::codec
