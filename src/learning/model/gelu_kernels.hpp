// SPDX-License-Identifier: Apache-2.0
// Vector kernels of the Gaussian error linear unit and its gradient. No torch.
//
// Source   D. Hendrycks, K. Gimpel, "Gaussian error linear units", arXiv:1606.08415: x Phi(x), Phi
//          the normal distribution function, exact and not by its tanh; Phi by M. Abramowitz, I.
//          Stegun, "Handbook of mathematical functions", 7.1.26
// Error    of gelu(x) below 2e-7 max(1, |x|), of its derivative below 4e-7; what is not a number
//          stays so

#pragma once

#include <span>

namespace eqt::model {

/// y = gelu(x). @pre y.size() == x.size()
void gelu(std::span<const float> x, std::span<float> y);

/// dx = g * gelu'(x). @pre g.size() == dx.size() == x.size()
void gelu_gradient(std::span<const float> g, std::span<const float> x, std::span<float> dx);

}  // namespace eqt::model
