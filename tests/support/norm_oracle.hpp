// SPDX-License-Identifier: Apache-2.0
// Every normalization layer in float64, from the formulas and their closed-form gradients, element
// by element; arrays are (n, c, h, w) row-major.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace eqt::test {

struct NormShape {
  std::size_t n, c, h, w;
  std::size_t groups = 0;  // of channels; without meaning for statistics over the batch
  std::size_t pixels() const { return h * w; }
  std::size_t count() const { return n * c * h * w; }
  std::size_t channel_of(std::size_t i) const { return i / pixels() % c; }
};

struct NormInput {
  std::vector<double> x, g;             // g: dL/dnorm(x)
  std::vector<double> weight, bias, v;  // (c)
};

struct NormOutput {
  std::vector<double> y, dx;
  std::vector<double> weight, bias, v;  // gradients, (c)
  std::vector<double> mean, inverse;    // of each set of values that share statistics
};

/// @param kind a value of model.normalization
NormOutput norm_oracle(const std::string& kind, const NormShape& shape, const NormInput& input);

}  // namespace eqt::test
