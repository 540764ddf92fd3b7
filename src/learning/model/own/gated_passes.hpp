// SPDX-License-Identifier: Apache-2.0
// The activations of the EvoNorms on the operands of a sample. No torch.
//
// Shapes and numbers as in passes.hpp; ../evonorm_kernels.hpp has the symbols and the source

#pragma once

#include <cstddef>
#include <span>

#include "model/evonorm_kernels.hpp"
#include "model/own/passes.hpp"

namespace eqt::model::precision {

/// The activation of an EvoNorm for a sample: u = x * h(v * x) with x = q * unit.
struct Activation {
  Sigmoid sigmoid;
  float unit;
  Floats v;
};

/// y = u * scale + shift. @pre output is not Output::rectified
void gated(Bytes q, const Activation& activation, Floats scale, Floats shift, Output output,
           std::span<float> out);
void gated(Floats q, const Activation& activation, Floats scale, Floats shift, Output output,
           std::span<float> out);

/// products = sum of g * u, slopes = sum of g * x^2 * h'(v * x) for each channel, in float32 for 64
/// pixels at a time.
void gated_sums(Bytes g, Bytes q, const Activation& activation, std::span<double> products,
                std::span<double> slopes);
void gated_sums(Floats g, Floats q, const Activation& activation, std::span<double> products,
                std::span<double> slopes);
/// error = g * scale * (h + z * h') - (q * slope + offset), z = v * x.
void gated_error(Bytes g, Bytes q, const Activation& activation, Floats scale, Floats slope,
                 Floats offset, std::span<float> error);
void gated_error(Floats g, Floats q, const Activation& activation, Floats scale, Floats slope,
                 Floats offset, std::span<float> error);

}  // namespace eqt::model::precision
