// SPDX-License-Identifier: Apache-2.0
// The products of the low-rank kernels, one value at a time and in the documented order.

#pragma once

#include <span>
#include <vector>

#include "codec/low_rank/low_rank.hpp"

namespace eqt::test {

using codec::FactorShape;

template <typename T>
T sixteen_sums(std::span<const T> a, std::span<const T> b) {
  T sums[16] = {};
  for (std::size_t i = 0; i < a.size(); ++i) sums[i % 16] += a[i] * b[i];
  for (std::size_t width : {8u, 4u, 2u, 1u}) {
    for (std::size_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
  return sums[0];
}

inline std::vector<float> oracle_multiply(std::span<const float> m, std::span<const float> q,
                                          const FactorShape& s) {
  std::vector<float> p(s.left());
  for (std::size_t k = 0; k < s.rank; ++k) {
    for (std::size_t i = 0; i < s.rows; ++i) {
      p[k * s.rows + i] = sixteen_sums<float>(m.subspan(i * s.columns, s.columns),
                                              q.subspan(k * s.columns, s.columns));
    }
  }
  return p;
}

inline std::vector<float> oracle_multiply_transposed(std::span<const float> m,
                                                     std::span<const float> p,
                                                     const FactorShape& s) {
  std::vector<float> q(s.right());
  for (std::size_t k = 0; k < s.rank; ++k) {
    for (std::size_t j = 0; j < s.columns; ++j) {
      for (std::size_t first = 0; first < s.rows; first += 8) {
        float x[8] = {};
        for (std::size_t i = first; i < s.rows && i < first + 8; ++i) {
          x[i - first] = p[k * s.rows + i] * m[i * s.columns + j];
        }
        q[k * s.columns + j] += ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
      }
    }
  }
  return q;
}

inline std::vector<float> oracle_expand(std::span<const float> p, std::span<const float> q,
                                        const FactorShape& s) {
  std::vector<float> out(s.rows * s.columns);
  for (std::size_t i = 0; i < s.rows; ++i) {
    for (std::size_t j = 0; j < s.columns; ++j) {
      float sum = p[i] * q[j];
      for (std::size_t k = 1; k < s.rank; ++k) sum += p[k * s.rows + i] * q[k * s.columns + j];
      out[i * s.columns + j] = sum;
    }
  }
  return out;
}

}  // namespace eqt::test
