// SPDX-License-Identifier: Apache-2.0
// What all networks share: their input, and layers: convolution, linear map, dropout.

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "model/architecture.hpp"
#include "model/arithmetic.hpp"
#include "model/torch/network.hpp"
#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

template <class Dict>
NamedTensors named(const Dict& dict) {
  NamedTensors tensors;
  for (const auto& item : dict) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

// A convolution of bf16 images by float32 weights.
//
// Source   mixed precision with float32 masters: P. Micikevicius et al., ICLR 2018,
//          arXiv:1710.03740, section 3.1; bf16 needs no scaled loss: D. Kalamkar et al. 2019,
//          arXiv:1905.12322
// Numbers  operands, outputs and what is saved for backward are bf16, sums of products float32. The
//          weight's gradient is float32, but native arithmetic rounds it to bf16

/// x itself, or a copy in the other type.
at::Tensor channels_last(const at::Tensor& x, at::ScalarType type) {
  const at::Tensor from = x.contiguous(kChannelsLast);
  if (from.scalar_type() == type) return from;
  const at::Tensor to =
      at::empty(from.sizes(), from.options().dtype(type).memory_format(kChannelsLast));
  constexpr std::size_t kPart = 8192;  // [values]
  const auto count = static_cast<std::size_t>(from.numel());
  const bool narrows = type == at::kBFloat16;
  float* const floats = (narrows ? from : to).data_ptr<float>();
  auto* const halves = static_cast<std::uint16_t*>((narrows ? to : from).data_ptr());
  for_each_of((count + kPart - 1) / kPart, [&](std::size_t i) {
    const std::size_t first = i * kPart, length = std::min(kPart, count - first);
    if (narrows)
      narrow_to_bf16({floats + first, length}, {halves + first, length});
    else
      widen_bf16({halves + first, length}, {floats + first, length});
  });
  return to;
}

/// The bias is passed as a list of none or one, which works in all LibTorch versions.
class Bf16Convolution : public torch::autograd::Function<Bf16Convolution> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, at::TensorList bias, std::int64_t stride,
                            std::int64_t padding, bool native) {
    const at::ScalarType type = native ? at::kBFloat16 : at::kFloat;
    const at::Tensor images = channels_last(x, at::kBFloat16);
    const at::Tensor kernel = channels_last(weight, type);
    const at::Tensor y =
        at::conv2d(native ? images : channels_last(images, type), kernel,
                   bias.empty() ? at::Tensor() : bias[0].to(type), stride, padding);
    auto& data = context->saved_data;
    data["stride"] = stride;
    data["padding"] = padding;
    data["bias"] = !bias.empty();
    data["input gradient"] = x.requires_grad();
    data["weight gradient"] = weight.requires_grad();
    context->save_for_backward({images, kernel});
    return channels_last(y, at::kBFloat16);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const at::Tensor& kernel = saved[1];
    const at::ScalarType type = kernel.scalar_type();
    const at::Tensor g = channels_last(outputs[0], type);
    const std::int64_t stride = data["stride"].toInt(), padding = data["padding"].toInt();
    const bool has_bias = data["bias"].toBool();
    auto [dx, dw, db] = at::convolution_backward(
        g, channels_last(saved[0], type), kernel, c10::nullopt, {stride, stride},
        {padding, padding}, {1, 1}, /*transposed=*/false, {0, 0}, /*groups=*/1,
        {data["input gradient"].toBool(), data["weight gradient"].toBool(), false});
    torch::autograd::variable_list result;
    result.push_back(dx.defined() ? channels_last(dx, at::kBFloat16) : dx);
    result.push_back(dw.defined() ? dw.to(at::kFloat) : dw);
    if (has_bias) result.push_back(outputs[0].sum({0, 2, 3}, /*keepdim=*/false, at::kFloat));
    result.resize(result.size() + 3);  // no gradient for arguments that are no variables
    return result;
  }
};

/// @param x (n, in, h, w), float32 or bf16
/// @param weight (out, in, kernel, kernel), float32
/// @param bias (out), float32, or undefined
/// @return bf16, channels last
at::Tensor convolve_bf16(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         std::int64_t stride, std::int64_t padding, Bf16Arithmetic arithmetic) {
  std::vector<at::Tensor> biases;
  if (bias.defined()) biases.push_back(bias);
  return Bf16Convolution::apply(x, weight, at::TensorList(biases), stride, padding,
                                arithmetic == Bf16Arithmetic::native);
}

}  // namespace

const at::Tensor* NetworkInput::find(std::string_view name) const {
  for (const auto& [own, tensor] : arrays)
    if (own == name) return &tensor;
  return nullptr;
}

const at::Tensor& NetworkInput::at(std::string_view name) const {
  const at::Tensor* const found = find(name);
  EQT_CHECK(found != nullptr, "a batch without {}", name);
  return *found;
}

NamedTensors Network::parameters_by_name() const { return named(named_parameters()); }
NamedTensors Network::buffers_by_name() const { return named(named_buffers()); }

std::vector<std::string> Network::keep_statistics() {
  std::vector<std::string> paths;
  for (const auto& module : named_modules()) {
    auto* const norm = dynamic_cast<Normalization*>(module.value().get());
    if (norm == nullptr) continue;
    const bool trains = std::ranges::any_of(
        norm->parameters(), [](const at::Tensor& parameter) { return parameter.requires_grad(); });
    if (!trains && norm->keep_statistics()) paths.push_back(module.key());
  }
  return paths;
}

ConvolutionImpl::ConvolutionImpl(const ConvolutionShape& shape, at::Generator random)
    : stride_(shape.stride), padding_(shape.padding) {
  at::Tensor weight = at::empty({shape.out, shape.in, shape.kernel, shape.kernel});
  const auto fan_out = static_cast<double>(shape.kernel * shape.kernel * shape.out);
  weight.normal_(0, std::sqrt(2.0 / fan_out), random);
  weight_ = register_parameter("weight", weight);
  if (shape.bias) bias_ = register_parameter("bias", at::zeros({shape.out}));
}

ConvolutionImpl::ConvolutionImpl(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                 std::int64_t stride, at::Generator random)
    : ConvolutionImpl(ConvolutionShape{.in = in,
                                       .out = out,
                                       .kernel = kernel,
                                       .stride = stride,
                                       .padding = (kernel - 1) / 2},
                      std::move(random)) {}

at::Tensor ConvolutionImpl::forward(const at::Tensor& x) {
  if (bf16_) return convolve_bf16(x, weight_, bias_, stride_, padding_, *bf16_);
  return at::conv2d(x, weight_, bias_, stride_, padding_);
}

LinearImpl::LinearImpl(std::int64_t in, std::int64_t out, at::Generator random) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  weight_ = register_parameter("weight", at::empty({out, in}).uniform_(-bound, bound, random));
  bias_ = register_parameter("bias", at::empty({out}).uniform_(-bound, bound, random));
}

at::Tensor LinearImpl::forward(const at::Tensor& x) { return at::linear(x, weight_, bias_); }

at::Tensor mean_pixels(const at::Tensor& images) {
  if (images.scalar_type() == at::kFloat) return images.mean({2, 3});
  return images.mean({2, 3}, /*keepdim=*/false, at::kFloat);
}

DropoutImpl::DropoutImpl(double share, std::uint32_t layer) : share_(share), layer_(layer) {
  EQT_CHECK(share >= 0 && share < 1, "dropout of a share of {}", share);
}

at::Tensor DropoutImpl::forward(const at::Tensor& x) {
  if (!is_training() || share_ == 0) return x;
  EQT_CHECK(x.numel() <= UINT32_MAX, "dropout of {} values", x.numel());
  // On the host, so that a device has the same.
  at::Tensor mask = at::empty(x.sizes(), at::kFloat);
  draw_dropout(key_, layer_, share_, {mask.data_ptr<float>(), static_cast<std::size_t>(x.numel())});
  return x * mask.to(x.device());
}

}  // namespace eqt::model
