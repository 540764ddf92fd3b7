// SPDX-License-Identifier: Apache-2.0
#include "model/whitening.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/error.hpp"

namespace eqt::model {
namespace {

/// A symmetric matrix, row-major.
struct Symmetric {
  explicit Symmetric(std::size_t side) : n(side), values(side * side) {}
  double& at(std::size_t i, std::size_t j) { return values[i * n + j]; }
  double at(std::size_t i, std::size_t j) const { return values[i * n + j]; }
  std::size_t n;
  std::vector<double> values;
};

/// The mean over all patches of the products of their values; patches are in the order of rows.
Symmetric second_moments(std::span<const float> pictures, const data::ImageShape& shape,
                         std::size_t side) {
  const auto height = static_cast<std::size_t>(shape.height);
  const auto row = static_cast<std::size_t>(shape.width * shape.channels);
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t piece = side * channels;  // of a row, in a patch
  Symmetric sums(side * piece);
  std::vector<double> patch(sums.n);
  std::size_t patches = 0;
  for (std::size_t first = 0; first < pictures.size(); first += height * row) {
    for (std::size_t y = 0; y + side <= height; ++y) {
      for (std::size_t x = 0; x + piece <= row; x += channels) {
        for (std::size_t i = 0; i < side; ++i)
          std::copy_n(pictures.begin() + static_cast<std::ptrdiff_t>(first + (y + i) * row + x),
                      piece, patch.begin() + static_cast<std::ptrdiff_t>(i * piece));
        for (std::size_t i = 0; i < sums.n; ++i)
          for (std::size_t j = 0; j <= i; ++j) sums.at(i, j) += patch[i] * patch[j];
        ++patches;
      }
    }
  }
  for (std::size_t i = 0; i < sums.n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      sums.at(i, j) = sums.at(j, i) = sums.at(i, j) / static_cast<double>(patches);
  return sums;
}

/// Makes a(p, q) zero by a rotation of both axes, which it also applies to the columns of v.
void rotate(Symmetric& a, Symmetric& v, std::size_t p, std::size_t q) {
  const double off = a.at(p, q);
  if (off == 0) return;
  const double slope = (a.at(q, q) - a.at(p, p)) / (2 * off);
  const double tangent = std::copysign(1, slope) / (std::fabs(slope) + std::hypot(slope, 1.0));
  const double cosine = 1 / std::hypot(tangent, 1.0), sine = tangent * cosine;
  const auto turn = [&](double& x, double& y) {
    const double old = x;
    x = cosine * old - sine * y;
    y = sine * old + cosine * y;
  };
  for (std::size_t k = 0; k < a.n; ++k) turn(a.at(k, p), a.at(k, q));
  for (std::size_t k = 0; k < a.n; ++k) turn(a.at(p, k), a.at(q, k));
  for (std::size_t k = 0; k < a.n; ++k) turn(v.at(k, p), v.at(k, q));
}

/// Jacobi's method: afterwards a is diagonal, and the columns of the result are its eigenvectors.
Symmetric diagonalize(Symmetric& a) {
  constexpr int kSweeps = 30;  // it converges quadratically; ten are enough for 100 rows
  Symmetric v(a.n);
  for (std::size_t i = 0; i < a.n; ++i) v.at(i, i) = 1;
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (std::size_t p = 0; p < a.n; ++p)
      for (std::size_t q = p + 1; q < a.n; ++q) rotate(a, v, p, q);
  return v;
}

}  // namespace

std::vector<float> whitening_filters(std::span<const float> pictures, const data::ImageShape& shape,
                                     int side) {
  constexpr double kEpsilon = 5e-4;
  EQT_CHECK(!pictures.empty() && side > 0 && side <= shape.height && side <= shape.width,
            "patches of {} of {} x {}", side, shape.height, shape.width);
  Symmetric moments = second_moments(pictures, shape, static_cast<std::size_t>(side));
  double trace = 0;
  for (std::size_t i = 0; i < moments.n; ++i) trace += moments.at(i, i);
  if (!(trace > 0 && std::isfinite(trace)))
    fail(Kind::data,
         "the whitening layer: expected training pictures with other pixels than their mean, found "
         "only blank ones; look at the data set, or take another model.name");
  const Symmetric vectors = diagonalize(moments);
  std::vector<std::size_t> order(moments.n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return moments.at(i, i); });
  std::vector<float> filters(2 * moments.n * moments.n);
  for (std::size_t i = 0; i < moments.n; ++i) {
    const std::size_t column = order[i];
    double largest = 0;
    for (std::size_t k = 0; k < moments.n; ++k)
      if (std::fabs(vectors.at(k, column)) > std::fabs(largest)) largest = vectors.at(k, column);
    const double factor =
        std::copysign(1, largest) / std::sqrt(std::max(0.0, moments.at(column, column)) + kEpsilon);
    for (std::size_t k = 0; k < moments.n; ++k) {
      const auto value = static_cast<float>(factor * vectors.at(k, column));
      filters[i * moments.n + k] = value;
      filters[(moments.n + i) * moments.n + k] = -value;
    }
  }
  return filters;
}

}  // namespace eqt::model
