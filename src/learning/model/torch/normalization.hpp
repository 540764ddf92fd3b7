// SPDX-License-Identifier: Apache-2.0
// The normalization layers that networks choose from. Private to this room.
// docs/normalization.md has every layer's formula, source and speed.

#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "model/catalogue.hpp"
#include "model/norm_kernels.hpp"

namespace eqt::model {

inline constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

/// Normalizes, scales and shifts images (n, c, h, w). Parameters: weight and bias (c), as in torch;
/// layers that include an activation have v (c).
class Normalization : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x);  // norm(x)

  // These include the following activation, as one operation: they return relu(norm(x)) and
  // relu(norm(x) + residual). If replaces_activation(), they return norm(x) and norm(x) + residual,
  // so that networks call the same functions for all layers.
  at::Tensor relu(const at::Tensor& x);
  at::Tensor add_relu(const at::Tensor& x, const at::Tensor& residual);
  /// norm(x) + residual, as one operation.
  at::Tensor add(const at::Tensor& x, const at::Tensor& residual);

  /// True if the block has no ReLU, not even after the residual sum.
  virtual bool replaces_activation() const { return false; }

  /// From now on LibTorch's operations compute the layer, on whatever device its input is.
  /// @throws Error{usage} in the forward pass of layers by range, which have none
  void use_torch() { by_torch_ = true; }

  /// Sets the share of the newest batch in running values, in (0, 1]. Layers without running values
  /// ignore it, and so do those by range, whose share is published.
  virtual void track(double /*share*/) {}

  /// Sets what batch normalization adds to variances; other layers keep kNormEpsilon.
  virtual void keep_above(double /*epsilon*/) {}

  /// Training normalizes from now on by the running values as evaluation does, and these stay.
  /// Parameters get no gradient. @return false: the layer has no running values
  virtual bool keep_statistics() { return false; }

  /// The layer's path in the network, for messages.
  void set_path(std::string path) { path_ = std::move(path); }
  const std::string& path() const { return path_; }

 protected:
  /// norm(x) in both modes, from LibTorch's own operations.
  virtual at::Tensor by_torch(const at::Tensor& x);

 private:
  /// @param x channels last
  /// @param residual none or one, of x's shape and layout
  virtual at::Tensor apply(const at::Tensor& x, at::TensorList residual, bool relu) = 0;
  /// norm(x) in evaluation mode, from LibTorch's own operations, which a tracer can record; for
  /// every number of samples.
  virtual at::Tensor traceable(const at::Tensor& x) const = 0;
  at::Tensor run(const at::Tensor& x, const at::Tensor* residual, bool relu);

  bool by_torch_ = false;
  std::string path_ = "a layer";
};

struct NormalizationOptions {
  Entry<NormalizationRow> kind = normalizations::batchnorm;
  int groups = 0;  // of channels; 0 = as published
};

/// A layer for `channels` channels: weight 1, bias 0, v 1.
/// @throws Error{usage} if the groups do not divide the channels, or the layer has no groups
std::shared_ptr<Normalization> make_normalization(const NormalizationOptions& options,
                                                  std::int64_t channels);

/// One function for each layer of normalizations.def, in the layer's own file: make_groupnorm() and
/// so on. The forward pass of layers by range throws Error{usage} unless 16 chunks of at least 2
/// values divide a group (range_evonorm), or 16 chunks of at least 2 pixels the batch in training
/// mode (range_batchnorm; evaluation takes any batch).
/// @param groups divide the channels; 0 for layers that have none
#define EQT_NORMALIZATION(id, ...) \
  std::shared_ptr<Normalization> make_##id(std::int64_t channels, std::int64_t groups);
#include "model/normalizations.def"

}  // namespace eqt::model
