// SPDX-License-Identifier: Apache-2.0
#include "model/torch/bf16_convolution.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

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

}  // namespace

at::Tensor convolve_bf16(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         std::int64_t stride, std::int64_t padding, Bf16Arithmetic arithmetic) {
  std::vector<at::Tensor> biases;
  if (bias.defined()) biases.push_back(bias);
  return Bf16Convolution::apply(x, weight, at::TensorList(biases), stride, padding,
                                arithmetic == Bf16Arithmetic::native);
}

}  // namespace eqt::model
