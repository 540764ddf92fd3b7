// SPDX-License-Identifier: Apache-2.0
#include "model/torch/depthwise.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <span>
#include <vector>

#include "model/depthwise_kernels.hpp"
#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

/// (kernel * kernel, c), as the kernels read filters.
at::Tensor filters_of(const at::Tensor& weight) { return weight.flatten(1).t().contiguous(); }

DepthwiseShape depthwise_shape(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                               std::int64_t padding) {
  const auto size = [](std::int64_t side) { return static_cast<std::size_t>(side); };
  return {.height = size(x.size(2)),
          .width = size(x.size(3)),
          .channels = size(x.size(1)),
          .kernel = size(weight.size(2)),
          .stride = size(stride),
          .padding = size(padding)};
}

class DepthwiseConvolution : public torch::autograd::Function<DepthwiseConvolution> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& weight, std::int64_t stride, std::int64_t padding) {
    const at::Tensor x = images.contiguous(kChannelsLast);
    const DepthwiseShape shape = depthwise_shape(x, weight, stride, padding);
    const at::Tensor y =
        at::empty({x.size(0), x.size(1), static_cast<std::int64_t>(shape.out_height()),
                   static_cast<std::int64_t>(shape.out_width())},
                  x.options().memory_format(kChannelsLast));
    const at::Tensor filters = filters_of(weight);
    const ImageValues from(x), to(y);
    for_each_of(static_cast<std::size_t>(x.size(0)), [&](std::size_t i) {
      const auto in = from.read(i * shape.in_count(), shape.in_count(), Scratch::input);
      to.write(i * shape.out_count(), shape.out_count(), Scratch::output,
               [&](std::span<float> out) { depthwise(in, values(filters), shape, out); });
    });
    auto& data = context->saved_data;
    data["stride"] = stride;
    data["padding"] = padding;
    data["input gradient"] = images.requires_grad();
    data["weight gradient"] = weight.requires_grad();
    context->save_for_backward({x, weight});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor g = outputs[0].contiguous(kChannelsLast);
    const DepthwiseShape shape =
        depthwise_shape(x, weight, data["stride"].toInt(), data["padding"].toInt());
    torch::autograd::variable_list result(4);  // none for arguments that are no variables
    if (data["input gradient"].toBool()) result[0] = input_gradient_of(g, x, weight, shape);
    if (data["weight gradient"].toBool()) result[1] = weight_gradient_of(g, x, weight, shape);
    return result;
  }

 private:
  static at::Tensor input_gradient_of(const at::Tensor& g, const at::Tensor& x,
                                      const at::Tensor& weight, const DepthwiseShape& shape) {
    at::Tensor dx = at::empty_like(x);
    const at::Tensor filters = filters_of(weight);
    const ImageValues from(g), to(dx);
    for_each_of(static_cast<std::size_t>(x.size(0)), [&](std::size_t i) {
      const auto errors = from.read(i * shape.out_count(), shape.out_count(), Scratch::gradient);
      to.write(i * shape.in_count(), shape.in_count(), Scratch::output, [&](std::span<float> out) {
        depthwise_input_gradient(errors, values(filters), shape, out);
      });
    });
    return dx;
  }

  static at::Tensor weight_gradient_of(const at::Tensor& g, const at::Tensor& x,
                                       const at::Tensor& weight, const DepthwiseShape& shape) {
    const auto samples = static_cast<std::size_t>(x.size(0));
    const std::size_t count = shape.filter_count();
    std::vector<float> partial(samples * count);
    const ImageValues errors(g), from(x);
    for_each_of(samples, [&](std::size_t i) {
      depthwise_filter_gradient(
          errors.read(i * shape.out_count(), shape.out_count(), Scratch::gradient),
          from.read(i * shape.in_count(), shape.in_count(), Scratch::input), shape,
          std::span(partial).subspan(i * count, count));
    });
    std::vector<double> sums(count);
    for (std::size_t i = 0; i < samples; ++i)
      for (std::size_t j = 0; j < count; ++j) sums[j] += partial[i * count + j];
    const at::Tensor filters =
        at::empty({static_cast<std::int64_t>(shape.kernel * shape.kernel), x.size(1)}, at::kFloat);
    const std::span<float> to = values(filters);
    for (std::size_t j = 0; j < count; ++j) to[j] = static_cast<float>(sums[j]);
    return filters.t().reshape(weight.sizes());
  }
};

}  // namespace

DepthwiseImpl::DepthwiseImpl(const DepthwiseOptions& options, at::Generator random)
    : stride_(options.stride), padding_((options.kernel - 1) / 2) {
  at::Tensor weight = at::empty({options.channels, 1, options.kernel, options.kernel});
  weight_ = register_parameter("weight", weight.normal_(0, options.deviation, std::move(random)));
}

at::Tensor DepthwiseImpl::forward(const at::Tensor& x) {
  if (is_for_torch(x)) return at::conv2d(x, weight_, {}, stride_, padding_, 1, x.size(1));
  return DepthwiseConvolution::apply(x, weight_, stride_, padding_);
}

}  // namespace eqt::model
