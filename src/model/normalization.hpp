// The normalization layers that networks choose from. Private to this room.

#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace eqt::model {

/// Normalizes images (n, c, h, w), channels last, and scales and shifts each channel. Parameters:
/// weight and bias (c), torch's names; layers that are an activation too have v (c).
class Normalization : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;  // norm(x)

  // What the activation after a layer needs, as one operation. Where replaces_activation(), norm(x)
  // and norm(x) + residual: a network calls the same function for every layer.
  virtual at::Tensor relu(const at::Tensor& x) = 0;  // relu(norm(x))
  virtual at::Tensor add_relu(const at::Tensor& x,
                              const at::Tensor& residual) = 0;  // relu(norm(x) + residual)

  /// Whether no ReLU belongs in the block, not even after the residual sum.
  virtual bool replaces_activation() const { return false; }

  /// Where in the network the layer is, for messages.
  void set_path(std::string path) { path_ = std::move(path); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "a layer";
};

struct NormalizationOptions {
  std::string kind = "batchnorm";
  int groups = 0;  // of channels with statistics of their own; 0 = the source's
};

/// A layer for `channels` channels: weight 1, bias 0, v 1.
/// @throws Error{usage} for an unknown kind (lists all) or groups that do not divide the channels
std::shared_ptr<Normalization> make_normalization(const NormalizationOptions& options,
                                                  std::int64_t channels);

}  // namespace eqt::model
