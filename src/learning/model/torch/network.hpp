// SPDX-License-Identifier: Apache-2.0
// The parts of the networks in this room.

#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "model/arithmetic.hpp"
#include "model/replica.hpp"
#include "model/torch/normalization.hpp"
#include "model/torch/weights.hpp"

namespace eqt::model {

/// A batch as tensors on its own memory, which networks only read.
struct NetworkInput {
  NamedTensors arrays;  // those of the data set, in its order; pictures (n, c, h, w), channels last
  at::Tensor targets;   // for networks that compute their own loss; else, or if none, undefined

  std::int64_t size() const { return arrays.front().second.size(0); }
  /// The array of this name; nullptr if the data set has none.
  const at::Tensor* find(std::string_view name) const;
  /// @pre there is one
  const at::Tensor& at(std::string_view name) const;
  /// @pre the data set has pictures
  const at::Tensor& images() const { return at(data::kImages); }
};

/// ScriptRequest says what a network's TorchScript archive is for.
struct ScriptRequest {
  std::vector<data::ArraySpec> inputs;                 // of the network, as Dataset::inputs()
  Frame frame;                                         // put around pictures
  std::unordered_map<std::string, std::string> files;  // further ones of the archive
};

class Network : public torch::nn::Module {
 public:
  /// Returns what the task wants (model/torch/task_loss.hpp): logits (n, classes) of
  /// classification.
  virtual at::Tensor forward(const NetworkInput& input) = 0;
  /// "the network of model.path net.pt", for messages.
  virtual std::string title() const { return "the network"; }
  /// Sets the key of the next training batch's random numbers (dropout). Networks without random
  /// numbers ignore it.
  virtual void draw_from(const RandomKey& /*key*/) {}
  /// Handles of the tensors that are trained, and of others such as running statistics, by their
  /// paths; each tensor once.
  virtual NamedTensors parameters_by_name() const;
  virtual NamedTensors buffers_by_name() const;
  /// Further names of these tensors.
  virtual std::vector<TiedName> tied_names() const { return {}; }
  /// Moves buffers of other types than float32 to where the network computes, where it needs them
  /// there.
  virtual void place_constants(at::Device /*device*/) {}
  /// Training normalizes from now on by running statistics, which stay, in each normalization that
  /// has them and parameters of which none requires a gradient. @return the paths of these
  virtual std::vector<std::string> keep_statistics();
  /// Called after the backward pass of a batch.
  virtual void finish_batch() {}
  /// keep_state() before an evaluation and put_back_state() after it: what forward() has changed is
  /// as it was. Networks that change nothing in evaluation mode ignore both.
  virtual void keep_state() {}
  virtual void put_back_state() {}
  /// Returns what a user should know before training.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Says whose error it is if LibTorch cannot compute with the network.
  virtual Kind blame() const { return Kind::bug; }
  /// The bytes of a TorchScript archive of this network in evaluation mode, whose arguments are the
  /// inputs in their order, pictures as (n, c, h, w) and without the frame. The tensors keep their
  /// names.
  /// @throws Error{data} if LibTorch cannot trace it
  virtual std::string torchscript(const ScriptRequest& request);
  /// Files of weights from elsewhere may have other names.
  virtual weights::FileNames file_names() const { return {}; }
};

struct ConvolutionShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 1;
  bool bias = false;
};

/// Square convolution.
class ConvolutionImpl : public torch::nn::Module {
 public:
  /// Draws N(0, 2 / (kernel^2 * out)) from `random`: He et al., ICCV 2015, eq. (14), by fan-out.
  /// The bias starts at 0.
  ConvolutionImpl(const ConvolutionShape& shape, at::Generator random);
  /// The convolution has no bias and is padded by (kernel - 1) / 2.
  ConvolutionImpl(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                  at::Generator random);
  at::Tensor forward(const at::Tensor& x);  // float32; bf16 after use_bf16()
  /// From now on it returns bf16 images.
  void use_bf16(Bf16Arithmetic arithmetic) { bf16_ = arithmetic; }

 private:
  std::optional<Bf16Arithmetic> bf16_;
  at::Tensor weight_;  // (out, in, kernel, kernel)
  at::Tensor bias_;    // (out), or none
  std::int64_t stride_;
  std::int64_t padding_;
};
TORCH_MODULE(Convolution);

/// x * weight' + bias.
class LinearImpl : public torch::nn::Module {
 public:
  /// Draws weight and bias uniformly from +-1 / sqrt(in), as PyTorch does.
  LinearImpl(std::int64_t in, std::int64_t out, at::Generator random);
  at::Tensor forward(const at::Tensor& x);  // (n, in) to (n, out)

 private:
  at::Tensor weight_;  // (out, in)
  at::Tensor bias_;    // (out)
};
TORCH_MODULE(Linear);

/// In training mode a value is 0 with probability `share` and 1 / (1 - share) times itself
/// otherwise; in evaluation mode it does not change. N. Srivastava et al., JMLR 15 (2014), section
/// 4, with the scaling moved from evaluation to training.
class DropoutImpl : public torch::nn::Module {
 public:
  /// @param layer number of the dropout in the network
  /// @pre 0 <= share < 1
  DropoutImpl(double share, std::uint32_t layer);
  /// The mask of the next forward() is a pure function of (key, layer, index), the index counted in
  /// x's row-major order.
  void draw_from(const RandomKey& key) { key_ = key; }
  at::Tensor forward(const at::Tensor& x);  // of any shape

 private:
  double share_;
  std::uint32_t layer_;
  RandomKey key_;
};
TORCH_MODULE(Dropout);

/// One function for each network of models.def, in the network's own file: make_resnet20() and so
/// on. Parameters and buffers have the names of torchvision, timm or Hugging Face. The initial
/// weights depend only on the seed. @pre make_replica() has checked the options
#define EQT_MODEL(id, ...) std::shared_ptr<Network> make_##id(const ModelOptions& options);
#include "model/models.def"

/// The network of the options.
/// @throws Error{usage} for an input or options that it cannot take
std::shared_ptr<Network> make_network(const ModelOptions& options);

/// The mean over the pixels of each channel, float32: (n, c).
at::Tensor mean_pixels(const at::Tensor& images);

/// `images` with rows and columns of zeros around them.
at::Tensor framed(const at::Tensor& images, const Frame& frame);

}  // namespace eqt::model
