// SPDX-License-Identifier: Apache-2.0
// How noisy the gradients of a minibatch are, and what compression adds to that.
//
// Source   idea of the noise scale: S. McCandlish et al., "An Empirical Model of Large-Batch
//          Training", 2018, arXiv:1812.06162; the estimator for means that are quantised is derived
//          in docs/compressors.md, section "Grades by noise and link"
// Symbols  n ranks with batches of b_i samples, B their sum, w_i = n b_i / B; g_i the mean gradient
//          of rank i, m the mean that all ranks decode; G the true gradient, tau the variance of
//          one sample's gradient, V = tau / B that of the mean over the batch
// Model    g_i = G + noise of variance tau / b_i, independent between ranks;
//          m = (1/n) sum w_i g_i + an error of mean 0

#pragma once

#include <span>
#include <vector>

namespace eqt::adaptation {

/// A rank's batch in a step.
struct RankBatch {
  double samples = 1;  // b_i
  double weight = 1;   // w_i, by which its gradient is multiplied before it is sent
};

/// Holds what a rank knows of a slice.
struct SliceSums {
  double square = 0;   // a_i = |g_i|^2
  double product = 0;  // p_i = <g_i, m>
  double change = 0;   // c_i: half the square of g_i minus that of the step before
};

struct NoiseEstimate {
  double signal = 0;        // |G|^2; an estimate may be negative
  double sample_noise = 0;  // tau; likewise
};

/// The sum, which does not depend on the order of the values.
double ordered_sum(std::vector<double> values);

///   |G|^2 = (n sum p_i - sum w_i a_i) / (n (n - 1)),   tau = (sum a_i - n |G|^2) / sum (1 / b_i)
/// Both are unbiased for every unbiased compressor, and do not depend on the order of the ranks.
/// @param sums, batches by rank
/// @pre at least 2 ranks, as many batches
NoiseEstimate estimate_noise(std::span<const SliceSums> sums, std::span<const RankBatch> batches);

/// Estimates the noise where ranks have different data, so that their true gradients differ. It
/// uses two steps in a row, between which those hardly change:
///   V = (1 / n^2) sum w_i^2 c_i,   tau = B V,   |G|^2 = (1 / n) sum w_i p_i - V
/// V is too large by half the square of that change.
NoiseEstimate estimate_noise_of_pairs(std::span<const SliceSums> sums,
                                      std::span<const RankBatch> batches);

/// Holds what encoding a slice adds to the variance of the mean.
struct SliceError {
  double square = 0;  // A: mean over ranks of |w_i g_i|^2
  double error = 0;   // mean over ranks of the variance of the encoded w_i g_i
};

/// E/n for values that are quantised once. Each further quantisation of a value is as that of the
/// mean by scatter-reduce, e (|G|^2 + V + E/n) with the relative variance e = E/A; this is too much
/// for ring and recursive doubling, whose partial sums are smaller.
/// @param batch_noise V
/// @pre ranks, quantisations >= 1
double added_noise(const SliceError& slice, double signal, double batch_noise, int ranks,
                   int quantisations);

}  // namespace eqt::adaptation
