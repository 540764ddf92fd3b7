// SPDX-License-Identifier: Apache-2.0
// Memory of training and inference by counting values: as in the paper's table, and physically.
//
// Source   S. A. Aketi, S. Kodge, K. Roy, Neural Networks 155 (2022), table 10 (torchsummary's
//          figures); docs/theory.md says what they do not count

#pragma once

#include "theory/energy.hpp"
#include "theory/network_shape.hpp"

namespace eqt::theory {

inline constexpr double kMebibyte = 1024.0 * 1024.0;

/// Values of the outputs of every layer and residual block, for one image. ReLU is a separate layer
/// after batch normalisation, and part of EvoNorm.
std::uint64_t layer_output_values(const NetworkShape& shape, RangeNorm norm);

/// The table's figure [MiB], with each summand rounded to two decimals. Training: twice the layer
/// outputs of a batch, the input, and five copies of the parameters (weights, gradient, momentum,
/// CHOCO's own copy and its neighbours' sum). 8 bits: a quarter of everything except the copies.
/// Inference: the parameters.
/// @pre precision is not bfloat16, which the table lacks
double paper_memory(const NetworkShape& shape, int batch, Phase phase, RangeNorm norm,
                    Precision precision);

/// The memory at the peak of a training step or an inference [MiB].
struct PeakMemory {
  double parameters = 0;   // weights in float32; in low precision a second copy for computing
  double gradient = 0;     // float32
  double optimizer = 0;    // momentum, float32
  double algorithm = 0;    // copies that gossip remembers, float32
  double activations = 0;  // kept for the backward pass, or of the largest layer in inference
  double workspace = 0;    // gradients of the largest layer's input and output
  double total() const {
    return parameters + gradient + optimizer + algorithm + activations + workspace;
  }
};

/// @param copies of the parameters that the algorithm keeps: 2 for CHOCO
PeakMemory peak_memory(const NetworkShape& shape, int batch, Phase phase, Precision precision,
                       int copies);

}  // namespace eqt::theory
