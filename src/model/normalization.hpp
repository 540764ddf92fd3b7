// SPDX-License-Identifier: Apache-2.0
// The normalization layers that networks choose from. Private to this room.
// NORMALIZATION.md: every layer's formula, source and speed.

#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "model/catalogue.hpp"

namespace eqt::model {

inline constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
inline constexpr double kNormEpsilon = 1e-5;  // torch's default, in torchvision's ResNets too

/// Normalizes, scales and shifts images (n, c, h, w). Parameters: weight and bias (c), which are
/// torch's names; layers that are an activation too have v (c).
class Normalization : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x);  // norm(x)

  // With the activation that follows, as one operation: relu(norm(x)) and relu(norm(x) + residual).
  // Where replaces_activation(), norm(x) and norm(x) + residual: networks call the same for all.
  at::Tensor relu(const at::Tensor& x);
  at::Tensor add_relu(const at::Tensor& x, const at::Tensor& residual);

  /// Whether no ReLU belongs in the block, not even after the residual sum.
  virtual bool replaces_activation() const { return false; }

  /// Where in the network the layer is, for messages.
  void set_path(std::string path) { path_ = std::move(path); }
  const std::string& path() const { return path_; }

 private:
  /// @param x channels last
  /// @param residual none or one, of x's shape and layout
  virtual at::Tensor apply(const at::Tensor& x, at::TensorList residual, bool relu) = 0;

  std::string path_ = "a layer";
};

struct NormalizationOptions {
  Entry<NormalizationRow> kind = normalizations::batchnorm;
  int groups = 0;  // of channels with statistics of their own; 0 = as published
};

/// A layer for `channels` channels: weight 1, bias 0, v 1.
/// @throws Error{usage} for groups that do not divide the channels, or of a layer without groups
std::shared_ptr<Normalization> make_normalization(const NormalizationOptions& options,
                                                  std::int64_t channels);

/// One function for each layer of normalizations.def, in the layer's own file: make_groupnorm() and
/// so on. The forward pass of layers by range throws Error{usage} where 16 chunks of at least 2
/// values do not cut a group (range_evonorm), or of 2 pixels the batch in training mode
/// (range_batchnorm, whose evaluation takes any batch).
/// @param groups divide the channels; 0 for layers that have none
#define EQT_NORMALIZATION(id, ...) \
  std::shared_ptr<Normalization> make_##id(std::int64_t channels, std::int64_t groups);
#include "model/normalizations.def"

}  // namespace eqt::model
