// SPDX-License-Identifier: Apache-2.0
// The statistics of a step's gradients for ALQ and AMQ: a fixed number of sums, added over buckets
// and ranks, and the mixture of normals that follows from them.
//
// Source   F. Faghri et al., NeurIPS 2020, arXiv:2010.12460, section 3: a mixture of truncated
//          normals, one per bucket, weighted by the square of the bucket's norm
// Differs  The paper fits one normal to the values of a bucket. Under the L2 norm their mean square
//          is always 1/d, so that model does not distinguish heavy tails from light ones, and
//          levels fitted to it may be worse than none. Here magnitudes are sorted into bins of a
//          quarter octave, and each bin has a normal around its mean: the same kind of mixture,
//          with one component per size of values instead of per bucket. All buckets of all ranks
//          are used, not only those of largest norm

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "codec/levels/truncated_normal.hpp"
#include "codec/options.hpp"
#include "core/exact_sum.hpp"

namespace eqt::codec {

class GradientStatistics {
 public:
  static constexpr std::size_t kBins = 128;  // bin k: magnitudes in [2^(-(k+1)/4), 2^(-k/4))
  static constexpr std::size_t kSums = 2 * kBins + 1;  // how many sums() there are

  /// The distribution of normalised magnitudes, each weighted by the square of its bucket's norm.
  struct Model {
    NormalMixture mixture;
    /// Factor from the mixture's variance of one r to E|Q(g) - g|^2 / |g|^2 of everything added.
    double variance_scale = 0;
  };

  /// Adds the buckets of one encoded segment. Buckets of zeros, and of squares that are too large
  /// for a double, are ignored.
  void add(std::span<const float> values, std::size_t bucket_size, Norm norm);

  void clear() noexcept;
  /// The sums of all that add() was given; they do not depend on the order of the buckets. Adding
  /// the sums of all ranks gives the statistics of all ranks.
  std::span<double> sums() noexcept;

  /// Empty if all values were zero.
  std::optional<Model> model() const;

 private:
  void open_sums();
  double sum(std::size_t i) const noexcept;
  void add_bucket(std::span<const float> bucket, double norm);

  // Each bin has the weight of its values and their weighted sum here. The squared L2 norm of all
  // values comes last.
  std::array<double, kSums> sums_{};
  std::vector<ExactSum> exact_;  // added since the last sums(); may be empty
};

}  // namespace eqt::codec
