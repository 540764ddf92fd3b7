// SPDX-License-Identifier: Apache-2.0
// Vector kernels of normalization by channel, fused with the residual sum and ReLU. No torch.
//
// Source   S. Ioffe, C. Szegedy, ICML 2015, arXiv:1502.03167, algorithm 1 and section 3
// Symbols  x input, y = relu((x - mean) * scale + shift + residual), g = dL/dy
// Shapes   every tensor is a block of rows: (rows, channels) row-major, which is how channels-last
//          images (n, h, w, c) lie in memory; every parameter is (channels)
//
// Each kernel works on one block, in one pass over memory; callers cut a tensor into blocks and add
// the sums. ReLU keeps NaN, so that divergence stays visible.

#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace eqt::model {

inline constexpr double kNormEpsilon = 1e-5;       // torch's default, and torchvision's
inline constexpr double kBatchNormMomentum = 0.1;  // share of the newest batch in running values

inline double inverse_deviation(double variance, double epsilon = kNormEpsilon) {
  return 1.0 / std::sqrt(variance + epsilon);
}

/// The map of normalization for a channel: (x - mean) * scale + shift.
struct ChannelMap {
  std::span<const float> mean;
  std::span<const float> scale;
  std::span<const float> shift;
};

/// Gate says how the sign for ReLU's gradient is found.
enum class Gate {
  open,       // no ReLU
  by_input,   // recomputed from x: there was no residual
  by_output,  // read from y
};

/// Mean of each channel and sum of squared differences from it.
/// @pre x holds at least one row
void channel_moments(std::span<const float> x, std::span<float> mean, std::span<float> squares);

/// Computes the same in one pass, around the mean of a few evenly spaced rows, which is faster for
/// small blocks. `squares` loses at most a digit if that mean is within a few deviations of the
/// block's mean.
void channel_moments_near(std::span<const float> x, std::span<float> mean,
                          std::span<float> squares);

/// y = (x - mean) * scale + shift, plus `residual` unless it is empty, then ReLU if asked for.
void normalize_rows(std::span<const float> x, std::span<const float> residual,
                    const ChannelMap& map, bool relu, std::span<float> y);

/// Per channel, with d = g where the gate is open and 0 elsewhere: sums = sum of d, products = sum
/// of d * (x - mean). With Gate::by_output it reads y and also writes d, the gradient of the
/// residual, to `gated`; otherwise both may be empty.
void gradient_sums(std::span<const float> g, std::span<const float> x, std::span<const float> y,
                   const ChannelMap& map, Gate gate, std::span<float> sums,
                   std::span<float> products, std::span<float> gated);

/// dx = scale * d - offset - (x - mean) * slope: the gradient of the map, minus the part through
/// mean and scale. Gate::by_output expects the `gated` of gradient_sums as g.
void input_gradient(std::span<const float> g, std::span<const float> x, const ChannelMap& map,
                    Gate gate, std::span<const float> offset, std::span<const float> slope,
                    std::span<float> dx);

}  // namespace eqt::model
