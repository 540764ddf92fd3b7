// SPDX-License-Identifier: Apache-2.0
// Bits of a bucket's codes: exact expectations, bounds that always hold, and estimates of papers.
//
// Source   W1, W2: Alistarh et al., NeurIPS 2017, arXiv:1610.02132, with a count of nonzeros in W1;
//          W3: Faghri et al., NeurIPS 2020, arXiv:2010.12460, theorem 3; the bounds of W1 and W2
//          are derived in docs/theory.md
// Symbols  L(k) length of the Elias omega word of k; N nonzeros; n nonzero levels; d values;
//          P_i = min(1, r_i / l_1) the probability that index i is not 0; nbar >= sum of P_i
// Differs  from frames: without the 2 bits of the container's mode and the padding to a whole byte,
//          kFramingBits at most

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "theory/variance.hpp"

namespace eqt::theory {

/// The least concave function above some points, for using Jensen's inequality on code lengths.
class ConcaveHull {
 public:
  /// @pre points are sorted by x, which are distinct; at least one
  explicit ConcaveHull(const std::vector<std::pair<double, double>>& points);

  /// The hull at x; outside the points, the value at the nearest one.
  double operator()(double x) const;

  const std::vector<std::pair<double, double>>& corners() const { return corners_; }

 private:
  std::vector<std::pair<double, double>> corners_;
};

inline constexpr double kNormBits = 32;
/// The most bits for mode and padding of an entropy coded bucket; a fixed one has only the padding.
inline constexpr double kFramingBits = 2 + 7;

/// Expected lengths for one bucket of given values [bits], including the norm; a bucket of zeros
/// has only the norm. Add up buckets with +=.
struct ExpectedBits {
  double fixed = 0;     // W0: 32 + d b
  double sparse = 0;    // W1: 32 + omega(N + 1) + per nonzero omega(gap), sign, omega(index)
  double dense = 0;     // W2: 32 + per value omega(index + 1), sign if it is not 0
  double huffman = 0;   // W3: 32 + words of the best code for the expected shares, and signs
  double entropy = 0;   // 32 + entropy of the index shares, and signs: no code of them is shorter
  double theorem3 = 0;  // 32 + nbar + d (H + 1)
  double nonzeros = 0;  // sum of P_i
  double header = 0, gaps = 0, indices = 0;  // parts of `sparse`; the rest is norm and signs
  double buckets = 0;

  ExpectedBits& operator+=(const ExpectedBits& other);
};

/// @pre bucket.size() <= scheme.bucket_size
ExpectedBits expected_bits(const LevelScheme& scheme, std::span<const float> bucket);

/// Adds up the consecutive buckets of a segment.
ExpectedBits expected_bits_of_segment(const LevelScheme& scheme, std::span<const float> values);

/// Shares of the indices 0 ... n in a bucket, in expectation.
std::vector<double> index_shares(const LevelScheme& scheme, std::span<const float> bucket);
/// -sum p log2 p.
double entropy_of(std::span<const double> shares);
/// Bits per symbol of Huffman's code for these shares; a single symbol takes one bit.
double huffman_bits_of(std::span<const double> shares);

/// nbar = min(l_1^-2 + sqrt(d) / l_1, d) under the L2 norm, d under the maximum norm: the largest
/// expected number of nonzero indices of any vector.
double most_nonzeros(const LevelScheme& scheme, std::size_t d);

/// Bounds of the expected length for every vector of d values [bits], including the norm.
struct BitBounds {
  double sparse = 0;   // W1, by Jensen's inequality over gaps and squared levels
  double dense = 0;    // W2, likewise
  double huffman = 0;  // W3: at most words of equal length, with its table
  double fixed = 0;    // W0, exactly
};
BitBounds bit_bounds(const LevelScheme& scheme, std::size_t d);

/// The smallest bound of the containers that a coding may choose from, with the framing of one
/// bucket. rANS alone has no bound, because there is no simple one for its final states.
std::optional<double> bucket_bound(const LevelScheme& scheme, std::size_t d, codec::Coding coding);

/// Upper hull of the points (k, L(k)), k = 1 ... 2^17 at least and up to `most`.
ConcaveHull omega_hull(std::uint64_t most);

/// The published formulas without their o(1): estimates, which small buckets may exceed [bits].
struct PublishedBits {
  /// QSGD, theorem 3.2: (3 + 1.5 log(2 (s^2 + d) / (s (s + sqrt(d))))) s (s + sqrt(d)) + 32.
  static double qsgd_sparse(int s, double d);
  /// QSGD, s = sqrt(d): 2.8 d + 32.
  static double qsgd_dense(double d);
  /// NUQSGD, s levels below 1, p = 1/2: 32 + 3 nbar + nbar log(d / nbar) + nbar log log(8 (4^s + d)
  /// / nbar), nbar = 4^s + 2^s sqrt(d).
  static double nuqsgd(int s, double d);
};

}  // namespace eqt::theory
