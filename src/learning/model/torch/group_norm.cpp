// SPDX-License-Identifier: Apache-2.0
// Group normalization, the residual sum and ReLU as one operation on channels-last images.
//
// Source   Y. Wu, K. He, ECCV 2018, arXiv:1803.08494
// Why one sample fits into a second-level cache, so statistics and output need one pass over memory
// Numbers as in batch normalization: float32 per block of a sample, combined in float64 in a fixed
//          order; the same for every number of threads and every batch that holds the sample
// Differs  from torch::nn::GroupNorm: float32 on the CPU only, no second derivatives

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "model/norm_kernels.hpp"
#include "model/torch/group_statistics.hpp"
#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

/// A sample's map of each channel, from the statistics of its group.
class SampleMap {
 public:
  SampleMap(const GroupShape& shape, std::span<const float> weight, std::span<const float> bias)
      : shape_(shape),
        weight_(weight),
        bias_(bias),
        mean_(shape.channels),
        scale_(shape.channels) {}

  void set(std::span<const float> mean, std::span<const float> inverse) {
    shape_.for_each_channel([&](std::size_t c, std::size_t group) {
      mean_[c] = mean[group];
      scale_[c] = weight_[c] * inverse[group];
    });
  }

  ChannelMap map() const { return {mean_, scale_, bias_}; }

 private:
  GroupShape shape_;
  std::span<const float> weight_, bias_;
  std::vector<float> mean_, scale_;
};

struct GroupNormGradients {
  at::Tensor x, weight, bias, residual;
};

struct Saved {
  at::Tensor x, y, weight, bias;
  VarianceStatistics statistics;
  Gate gate;
};

/// One sample's gradients: the formulas of batch normalization with sums over a group.
class GroupSampleGradient {
 public:
  GroupSampleGradient(const Saved& saved, const GroupShape& shape)
      : saved_(saved),
        shape_(shape),
        blocks_(shape.blocks()),
        map_(shape, values(saved.weight), values(saved.bias)),
        block_sums_(shape.channels),
        block_products_(shape.channels),
        offset_(shape.channels),
        slope_(shape.channels) {}

  /// @param gated written if the gate is by_output
  /// @param sums, products (c) of d and d * (x - mean) over the sample
  void compute(std::size_t i, std::span<const float> g, std::span<float> gated, std::span<float> dx,
               std::span<double> sums, std::span<double> products) {
    const auto x = shape_.read(ImageValues(saved_.x), i, Scratch::input);
    const auto y = shape_.read(ImageValues(saved_.y), i, Scratch::other);
    map_.set(saved_.statistics.mean(i), saved_.statistics.inverse(i));
    for (std::size_t b = 0; b < blocks_.count(); ++b) {
      gradient_sums(blocks_.cut(g, b), blocks_.cut(x, b), blocks_.cut(y, b), map_.map(),
                    saved_.gate, block_sums_, block_products_, blocks_.cut(gated, b));
      for (std::size_t c = 0; c < shape_.channels; ++c) {
        sums[c] += block_sums_[c];
        products[c] += block_products_[c];
      }
    }
    regress(saved_.statistics.inverse(i), sums, products);
    const std::span<const float> source = gated.empty() ? g : gated;
    for (std::size_t b = blocks_.count(); b-- > 0;) {
      input_gradient(blocks_.cut(source, b), blocks_.cut(x, b), map_.map(), saved_.gate, offset_,
                     slope_, blocks_.cut(dx, b));
    }
  }

 private:
  /// Adds the part of the gradient through mean and variance of each group.
  void regress(std::span<const float> inverses, std::span<const double> sums,
               std::span<const double> products) {
    const auto weight = values(saved_.weight);
    const double count = static_cast<double>(shape_.group_values());
    const std::size_t width = shape_.group_channels();
    for (std::size_t group = 0; group < shape_.groups; ++group) {
      const std::size_t first = group * width;
      double sum = 0, product = 0;
      for (std::size_t c = first; c < first + width; ++c) {
        sum += weight[c] * sums[c];
        product += weight[c] * products[c];
      }
      const double inverse = inverses[group];
      std::fill_n(&offset_[first], width, static_cast<float>(inverse * sum / count));
      std::fill_n(&slope_[first], width,
                  static_cast<float>(inverse * inverse * inverse * product / count));
    }
  }

  const Saved& saved_;
  GroupShape shape_;
  RowBlocks blocks_;
  SampleMap map_;
  std::vector<float> block_sums_, block_products_, offset_, slope_;  // (c)
};

GroupNormGradients group_norm_gradients(const at::Tensor& g, const Saved& saved,
                                        const GroupShape& shape) {
  GroupNormGradients result;
  result.x = at::empty_like(saved.x);
  if (saved.gate == Gate::by_output) result.residual = at::empty_like(saved.x);
  const std::size_t channels = shape.channels;
  std::vector<double> sums(shape.samples * channels), products(sums.size());
  const ImageValues grad(g), d_residual(result.residual), dx(result.x);
  at::parallel_for(0, saved.x.size(0), 1, [&](auto first, auto last) {
    GroupSampleGradient sample(saved, shape);
    for (auto n = first; n < last; ++n) {
      const auto i = static_cast<std::size_t>(n);
      shape.write(d_residual, i, Scratch::gated, [&](std::span<float> gated_sample) {
        shape.write(dx, i, Scratch::output, [&](std::span<float> dx_sample) {
          sample.compute(i, shape.read(grad, i, Scratch::gradient), gated_sample, dx_sample,
                         std::span(sums).subspan(i * channels, channels),
                         std::span(products).subspan(i * channels, channels));
        });
      });
    }
  });
  for (std::size_t i = 0; i < shape.samples; ++i) {
    const auto inverse = saved.statistics.inverse(i);
    shape.for_each_channel(
        [&](std::size_t c, std::size_t group) { products[i * channels + c] *= inverse[group]; });
  }
  result.weight = add_samples(products, shape);
  result.bias = add_samples(sums, shape);
  return result;
}

/// The residual is passed as a list of none or one, which works in all LibTorch versions.
class GroupNormalize : public torch::autograd::Function<GroupNormalize> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias,
                            at::TensorList residual, std::int64_t groups, bool relu) {
    const GroupShape shape(x, groups);
    const VarianceStatistics statistics(shape);
    at::Tensor y = at::empty(x.sizes(), x.options().memory_format(kChannelsLast));
    const ImageValues in(x), add(residual.empty() ? at::Tensor() : residual[0]), out(y);
    at::parallel_for(0, x.size(0), 1, [&](auto first, auto last) {
      SampleMap map(shape, values(weight), values(bias));
      VarianceMeter meter(shape);
      for (auto n = first; n < last; ++n) {
        const auto i = static_cast<std::size_t>(n);
        const auto sample = shape.read(in, i, Scratch::input);
        const auto summand = shape.read(add, i, Scratch::other);
        meter.measure(sample, statistics, i);
        map.set(statistics.mean(i), statistics.inverse(i));
        const RowBlocks blocks = shape.blocks();
        shape.write(out, i, Scratch::output, [&](std::span<float> y_sample) {
          for (std::size_t b = blocks.count(); b-- > 0;) {
            normalize_rows(blocks.cut(sample, b), blocks.cut(summand, b), map.map(), relu,
                           blocks.cut(y_sample, b));
          }
        });
      }
    });
    const Gate gate = !relu ? Gate::open : residual.empty() ? Gate::by_input : Gate::by_output;
    context->saved_data["gate"] = static_cast<std::int64_t>(gate);
    context->saved_data["residual"] = !residual.empty();
    context->saved_data["groups"] = groups;
    context->save_for_backward(
        {x, gate == Gate::by_output ? y : at::Tensor(), weight, bias, statistics.tensor()});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto tensors = context->get_saved_variables();
    auto& data = context->saved_data;
    const Saved saved{tensors[0],
                      tensors[1],
                      tensors[2],
                      tensors[3],
                      VarianceStatistics(tensors[4]),
                      static_cast<Gate>(data["gate"].toInt())};
    const at::Tensor g = outputs[0].contiguous(kChannelsLast);
    const GroupShape shape(saved.x, data["groups"].toInt());
    GroupNormGradients d = group_norm_gradients(g, saved, shape);
    torch::autograd::variable_list result{d.x, d.weight, d.bias};
    if (data["residual"].toBool()) result.push_back(saved.gate == Gate::open ? g : d.residual);
    result.resize(result.size() + 2);  // no gradient for groups and relu
    return result;
  }
};

class GroupNorm final : public Normalization {
 public:
  GroupNorm(std::int64_t channels, std::int64_t groups)
      : groups_(groups),
        weight_(register_parameter("weight", at::ones({channels}))),
        bias_(register_parameter("bias", at::zeros({channels}))) {}

 private:
  at::Tensor apply(const at::Tensor& x, at::TensorList residual, bool relu) override {
    return GroupNormalize::apply(x, weight_, bias_, residual, groups_, relu);
  }

  at::Tensor traceable(const at::Tensor& x) const override {
    return at::group_norm(x, groups_, weight_, bias_, kNormEpsilon, /*cudnn_enabled=*/false);
  }

  at::Tensor by_torch(const at::Tensor& x) override { return traceable(x); }

  std::int64_t groups_;
  at::Tensor weight_, bias_;  // (c)
};

}  // namespace

std::shared_ptr<Normalization> make_groupnorm(std::int64_t channels, std::int64_t groups) {
  return std::make_shared<GroupNorm>(channels, groups);
}

}  // namespace eqt::model
