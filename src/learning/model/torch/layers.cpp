// SPDX-License-Identifier: Apache-2.0
// What all networks share: their input, and layers: convolution, linear map, dropout.

#include <ATen/Functions.h>

#include <cmath>

#include "core/error.hpp"
#include "model/torch/bf16_convolution.hpp"
#include "model/torch/network.hpp"

namespace eqt::model {
namespace {

template <class Dict>
NamedTensors named(const Dict& dict) {
  NamedTensors tensors;
  for (const auto& item : dict) tensors.emplace_back(item.key(), item.value());
  return tensors;
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
  const RandomStream random(key_, layer_);
  const auto kept = static_cast<float>(1 / (1 - share_));
  const auto bound = static_cast<float>(share_);
  auto* const values = mask.data_ptr<float>();
  const auto count = static_cast<std::uint32_t>(x.numel());
  for (std::uint32_t i = 0; i < count; ++i) values[i] = random.uniform(i) < bound ? 0.0f : kept;
  return x * mask.to(x.device());
}

}  // namespace eqt::model
