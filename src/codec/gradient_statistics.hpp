// What ALQ and AMQ know of a step's gradients: a fixed number of sums that add over buckets and
// ranks, and the mixture of normals that they describe.
//
// Source   F. Faghri et al., NeurIPS 2020, arXiv:2010.12460, section 3: per bucket a truncated
//          normal, weighted by the square of the bucket's norm
// Differs  The paper has one normal per bucket. Under the L2 norm the mean square of a bucket's
//          normalised values is 1/d whatever they are, so that model does not see heavy tails. Here
//          each run of 16 values has its own: a centred normal of the run's mean square, which
//          makes the bucket a scale mixture of normals. Runs are gathered by half octaves of their
//          deviation, so all buckets of all ranks count, not only those of largest norm. A run
//          weighs as much as its values' variance: the bucket's squared norm times its length.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "codec/codecs.hpp"
#include "codec/truncated_normal.hpp"

namespace eqt::codec {

class GradientStatistics {
 public:
  /// Adds the buckets of one encoded run of values. Buckets of zeros and of infinite norm do not
  /// count.
  void add(std::span<const float> values, std::size_t bucket_size, Norm norm);

  void clear() noexcept { sums_.fill(0); }
  /// Everything that add() summed up: adding these of all ranks gives the statistics of all.
  std::span<double> sums() noexcept { return sums_; }

  /// Nothing if no value was nonzero.
  std::optional<NormalMixture> mixture() const;
  /// Factor from the mixture's variance of one r to E|Q(g) - g|^2 / |g|^2 of everything added.
  double variance_scale() const noexcept;

 private:
  static constexpr std::size_t kBins = 64;  // bin k: mean squares in [2^(-k-1), 2^-k)

  void add_bucket(std::span<const float> bucket, double norm);

  // Per bin its weight and its weighted mean squares; then the squared L2 norm of all.
  std::array<double, 2 * kBins + 1> sums_{};
};

}  // namespace eqt::codec
