// SPDX-License-Identifier: Apache-2.0
// The low-rank kernels against plain loops, and the basis that the factors need.

#include "codec/low_rank/low_rank.hpp"

#include <cstring>
#include <limits>

#include "codec/unit/codec_case.hpp"
#include "support/low_rank_oracle.hpp"

using namespace eqt;
using namespace eqt::codec;
using namespace eqt::codec::testing;
using namespace eqt::test;

namespace {

/// Sides around every vector width and row block, and ranks around every group.
std::vector<FactorShape> kernel_shapes() {
  std::vector<FactorShape> shapes;
  for (const std::size_t rows : {1u, 3u, 4u, 7u, 8u, 9u, 17u}) {
    for (const std::size_t columns : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 31u, 33u, 100u}) {
      for (const std::size_t rank : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
        shapes.push_back({rows, columns, rank});
      }
    }
  }
  shapes.push_back({64, 577, 32});
  return shapes;
}

struct Case {
  explicit Case(const FactorShape& s)
      : shape(s),
        m(gaussian(s.rows * s.columns, 1, 1)),
        p(gaussian(s.left(), 1, 2)),
        q(gaussian(s.right(), 1, 3)) {}
  FactorShape shape;
  std::vector<float> m, p, q;
};

double inner(std::span<const float> vectors, std::size_t length, std::size_t a, std::size_t b) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i) {
    sum += double{vectors[a * length + i]} * vectors[b * length + i];
  }
  return sum;
}

void require_orthonormal(std::span<const float> p, const FactorShape& shape) {
  for (std::size_t a = 0; a < shape.rank; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      INFO("vectors " << a << " and " << b << " of " << shape.rows << " values");
      REQUIRE(std::abs(inner(p, shape.rows, a, b) - (a == b ? 1 : 0)) < 1e-6);
    }
  }
}

}  // namespace

TEST_CASE("the products have the oracle's bits on every target", "[low_rank]") {
  for (const FactorShape& shape : kernel_shapes()) {
    const Case c(shape);
    INFO(shape.rows << " x " << shape.columns << " rank " << shape.rank);
    const auto p = oracle_multiply(c.m, c.q, shape);
    const auto q = oracle_multiply_transposed(c.m, c.p, shape);
    const auto out = oracle_expand(c.p, c.q, shape);
    on_every_target([&] {
      std::vector<float> found(shape.left(), 7.0f);
      multiply(c.m, c.q, shape, found);
      REQUIRE(same_bits(found, p));
      found.assign(shape.right(), 7.0f);
      multiply_transposed(c.m, c.p, shape, found);
      REQUIRE(same_bits(found, q));
      found.assign(out.size(), 7.0f);
      expand(c.p, c.q, shape, found);
      REQUIRE(same_bits(found, out));
    });
  }
}

TEST_CASE("an expansion may be scaled, added and cut short", "[low_rank]") {
  const FactorShape shape{9, 21, 3};
  const Case c(shape);
  const auto whole = oracle_expand(c.p, c.q, shape);
  for (const std::size_t count : {0u, 1u, 20u, 21u, 22u, 100u, 189u}) {
    on_every_target([&] {
      auto sum = gaussian(count, 1, 4);
      auto expected = sum;
      for (std::size_t i = 0; i < count; ++i) expected[i] += 0.3f * whole[i];
      expand_add(c.p, c.q, shape, 0.3f, sum);
      REQUIRE(same_bits(sum, expected));
    });
  }
}

TEST_CASE("float64 products have the oracle's bits on every target", "[low_rank]") {
  for (const std::size_t count : kCounts) {
    const auto a32 = gaussian(count, 1, 1), b32 = gaussian(count, 1, 2);
    const std::vector<double> a(a32.begin(), a32.end()), b(b32.begin(), b32.end());
    on_every_target([&] {
      REQUIRE(dot(a, b) == sixteen_sums<double>(a, b));
      auto to = b;
      subtract_scaled(0.7, a, to);
      for (std::size_t i = 0; i < count; ++i) REQUIRE(to[i] == b[i] - 0.7 * a[i]);
    });
  }
}

TEST_CASE("a basis is orthonormal, spans its input and has the same bits everywhere",
          "[low_rank]") {
  for (const FactorShape& shape :
       {FactorShape{1, 1, 1}, {2, 1, 2}, {16, 1, 3}, {33, 1, 32}, {32, 1, 32}, {1000, 1, 4}}) {
    for (const double scale : {1e-44, 1e-20, 1.0, 1e30}) {
      const auto input = gaussian(shape.left(), scale, shape.rows);
      std::vector<float> first;
      on_every_target([&] {
        Workspace workspace;
        auto p = input;
        REQUIRE(orthonormalise(shape, workspace, p));
        require_orthonormal(p, shape);
        if (first.empty()) first = p;
        REQUIRE(same_bits(p, first));
      });
      // Each input vector is its projection on the basis.
      for (std::size_t k = 0; k < shape.rank; ++k) {
        const auto g = std::span(input).subspan(k * shape.rows, shape.rows);
        double projected = 0, own = squared_norm(g);
        for (std::size_t b = 0; b <= k; ++b) {
          double product = 0;
          for (std::size_t i = 0; i < shape.rows; ++i) {
            product += double{first[b * shape.rows + i]} * g[i];
          }
          projected += product * product;
        }
        REQUIRE(projected == Approx(own).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("zero and dependent vectors are replaced", "[low_rank]") {
  Workspace workspace;
  const FactorShape shape{20, 1, 4};
  const auto g = gaussian(20);
  std::vector<float> p(80, 0.0f);
  REQUIRE(orthonormalise(shape, workspace, p));
  require_orthonormal(p, shape);
  std::vector<float> again(80, 0.0f);
  REQUIRE(orthonormalise(shape, workspace, again));
  REQUIRE(same_bits(p, again));
  for (std::size_t i = 0; i < 80; ++i) p[i] = g[i % 20] * (i < 40 ? 1.0f : -2.0f);
  REQUIRE(orthonormalise(shape, workspace, p));
  require_orthonormal(p, shape);
  REQUIRE(p[0] == Approx(g[0] / std::sqrt(squared_norm(g))));
}

TEST_CASE("nearly parallel vectors are still orthogonal", "[low_rank]") {
  // One projection alone would leave a cosine of about 1e-7 / 1e-5.
  Workspace workspace;
  const FactorShape shape{500, 1, 3};
  const auto g = gaussian(500), noise = gaussian(1500, 1e-5, 2);
  std::vector<float> p(1500);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = g[i % 500] + noise[i];
  REQUIRE(orthonormalise(shape, workspace, p));
  require_orthonormal(p, shape);
}

TEST_CASE("a basis of values that are not finite is refused", "[low_rank]") {
  Workspace workspace;
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> p(40, 1.0f);
    p[33] = bad;
    REQUIRE_FALSE(orthonormalise({20, 1, 2}, workspace, p));
  }
}

TEST_CASE("the start is normal and depends on the slice, not on step and rank", "[low_rank]") {
  const FactorShape shape{1, 20000, 2};
  std::vector<float> q(shape.right()), other(shape.right());
  draw_start(7, 3, shape, q);
  double mean = 0, square = 0, fourth = 0, product = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    mean += q[i];
    square += double{q[i]} * q[i];
    fourth += std::pow(double{q[i]}, 4);
    if (i < shape.columns) product += double{q[i]} * q[i + shape.columns];
  }
  const auto n = static_cast<double>(q.size());
  REQUIRE(std::abs(mean / n) < 5 / std::sqrt(n));
  REQUIRE(std::abs(square / n - 1) < 5 * std::sqrt(2 / n));
  REQUIRE(std::abs(fourth / n - 2.9) < 5 * std::sqrt(96 / n));  // 3 - 6 / (5 * 12)
  REQUIRE(std::abs(product / (n / 2)) < 5 / std::sqrt(n / 2));
  draw_start(7, 4, shape, other);
  REQUIRE_FALSE(same_bits(q, other));
  draw_start(8, 3, shape, other);
  REQUIRE_FALSE(same_bits(q, other));
}

TEST_CASE("only matrices that shrink are factored", "[low_rank]") {
  REQUIRE(factor_shape(0, 0, 2).rank == 0);
  REQUIRE(factor_shape(1000, 0, 2).rank == 0);
  REQUIRE(factor_shape(1000, 1, 2).rank == 0);
  REQUIRE(factor_shape(1000, 1000, 2).rank == 0);
  REQUIRE(factor_shape(4, 2, 1).rank == 0);  // 1 (2 + 2) = 4
  REQUIRE(factor_shape(6, 3, 1).rank == 1);
  REQUIRE(factor_shape(1600, 40, 2).rank == 2);
  REQUIRE(factor_shape(1600, 40, 20).rank == 0);
  const FactorShape shape = factor_shape(3000, 3, 32);
  REQUIRE(shape.rank == 0);  // rank 3 of 3 x 1000: 3009 floats
  REQUIRE(shape.columns == 1000);
}
