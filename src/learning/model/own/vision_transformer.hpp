// SPDX-License-Identifier: Apache-2.0
// Vision transformers whose matrix products have 8-bit operands, or float32 ones. No torch.
//
// Source   torch/vit.cpp has the papers and the formulas
// Operands are those of passes.hpp, with a scale for each sample and, in attention, each head.
//          Rounded are the inputs of all products, the weights and the errors; what layers add up,
//          means, variances and exponentials are floats
// Norms    A product takes the normalized values themselves: y = W (g x + b) + c is computed as
//          (W g) x + (W b + c), so that one array of operands serves the product, its weight
//          gradient and the gradient of the norm
// Softmax  The operands are exp(s - the largest of the row), whose range is always 1; the product
//          is divided by their sum, which makes it a mean whatever they are rounded to
// Numbers  bytes are equal on all processors with fused multiply-add, and for any number of threads

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "int8/convolution.hpp"
#include "int8/kernels.hpp"
#include "model/architecture.hpp"
#include "model/own/tensors.hpp"
#include "model/replica.hpp"

namespace eqt::model::precision {

/// The tensors of a vision transformer, in timm's order, by their indices.
struct VisionPlan : TensorPlan {
  VitPlan shape;
  std::size_t channels, outputs;  // of pictures; of the head

  static constexpr std::size_t kClassToken = 0, kPositions = 1, kFilters = 2, kLayers = 4;
  static constexpr std::size_t kOfLayer = 12;
  /// Places of a layer's weights behind the layer's first tensor; each has its bias behind it.
  enum OfLayer : std::size_t {
    kFirst = 0,
    kTogether = 2,
    kAttended = 4,
    kSecond = 6,
    kWide = 8,
    kNarrow = 10
  };
  static std::size_t of_layer(std::int64_t layer, OfLayer part) {
    return kLayers + static_cast<std::size_t>(layer) * kOfLayer + part;
  }
  std::size_t norm() const { return of_layer(shape.layers, kFirst); }
  std::size_t head() const { return norm() + 2; }
};

/// Returns nothing for other networks.
/// @throws Error{usage} for an input, a task or options that cannot be computed here
std::optional<VisionPlan> vision_plan(const ModelOptions& options);

/// Draws the values from which training starts: timm's.
TensorValues initial_values(const VisionPlan& plan, std::uint64_t seed);

/// Returns the shapes of its products, each once, as convolutions of a row of tokens with a kernel
/// of 1: of patches, of the layers, of queries with keys, of exponentials with values.
std::vector<int8::ConvolutionShape> products_of(const VisionPlan& plan);

/// @param kernels  of 8-bit operands. @param threads  that compute
template <typename Operand>
std::unique_ptr<Replica> make_vision_transformer(const ModelOptions& options,
                                                 const VisionPlan& plan, int8::Kernels kernels,
                                                 int threads);

/// Returns the bytes that such a replica allocates for steps of this many samples.
template <typename Operand>
std::size_t vision_transformer_bytes(const ModelOptions& options, const VisionPlan& plan,
                                     std::size_t samples);

}  // namespace eqt::model::precision
