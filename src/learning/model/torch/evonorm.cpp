// SPDX-License-Identifier: Apache-2.0
// EvoNorm-S0 and Range-EvoNorm: normalization and activation in one, on channels-last images.
//
// Source   S0: H. Liu et al., NeurIPS 2020, arXiv:2004.02967, table 2: statistics of groups of a
//          sample, no mean in the numerator, x * sigmoid(v * x) for an activation. Range-EvoNorm:
//          S. A. Aketi et al. 2021, arXiv:2111.09389: 1 / range (R. Banner et al., NeurIPS 2018,
//          arXiv:1805.11046) instead of 1 / deviation, and the hard sigmoid, so that 8 bits suffice
// Why one sample fits into a second-level cache, so statistics and output need one pass over
//          memory. The backward pass computes one sigmoid, where autograd would read seven tensors
// Numbers  float32 per block of a sample, combined in float64 in a fixed order; the same for every
//          number of threads and every batch that holds the sample
//
// With d = dL/dy * weight and I the scale of a group, u = x * h(v * x):
//   dL/dI = sum of d * u over the group
//   dL/dx = d * I * (h + z * h') + dL/dI * dI/dx
//   S0:     dI/dx = -I^3 * (x - mean) / m, where m is the number of values
//   Range:  dI/dx = -factor * I^2 / chunks at each chunk's first maximum, the opposite at its first
//           minimum, 0 elsewhere

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <type_traits>

#include "model/evonorm_kernels.hpp"
#include "model/torch/group_statistics.hpp"
#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

/// The divisors of S0 for a sample's groups; one per thread.
class Variance {
 public:
  using Statistics = VarianceStatistics;
  static constexpr Sigmoid kSigmoid = Sigmoid::exact;

  explicit Variance(const GroupShape& shape)
      : shape_(shape), meter_(shape), mean_(shape.channels), slope_(shape.channels) {}

  static Statistics restore(const torch::autograd::variable_list& saved) {
    return Statistics(saved[0]);
  }
  static torch::autograd::variable_list store(const Statistics& statistics) {
    return {statistics.tensor(), at::Tensor()};
  }

  void measure(std::span<const float> x, const Statistics& statistics, std::size_t sample) {
    meter_.measure(x, statistics, sample);
  }

  /// Returns the inverses of all samples' divisors, (samples, groups), by LibTorch's operations.
  static at::Tensor traceable_inverse(const at::Tensor& x, std::int64_t groups) {
    const at::Tensor values = x.reshape({-1, groups, x.size(1) / groups * x.size(2) * x.size(3)});
    return at::rsqrt(values.var({2}, /*unbiased=*/false) + kNormEpsilon);
  }

  /// dx += d_inverse * dI/dx, by group
  void add_gradient(std::span<const float> x, const Statistics& statistics, std::size_t sample,
                    std::span<const double> d_inverse, std::span<float> dx) {
    const auto mean = statistics.mean(sample), inverse = statistics.inverse(sample);
    const double count = static_cast<double>(shape_.group_values());
    const std::size_t width = shape_.group_channels();
    for (std::size_t group = 0; group < shape_.groups; ++group) {
      const double i = inverse[group];
      std::fill_n(&mean_[group * width], width, mean[group]);
      std::fill_n(&slope_[group * width], width,
                  static_cast<float>(i * i * i * d_inverse[group] / count));
    }
    const RowBlocks blocks = shape_.blocks();
    for (std::size_t b = blocks.count(); b-- > 0;) {
      subtract_regression(blocks.cut(x, b), mean_, slope_, blocks.cut(dx, b));
    }
  }

 private:
  GroupShape shape_;
  VarianceMeter meter_;
  std::vector<float> mean_, slope_;  // (c)
};

/// The divisors of Range-EvoNorm for a sample's groups.
class Range {
 public:
  using Statistics = RangeStatistics;
  static constexpr Sigmoid kSigmoid = Sigmoid::hard;

  explicit Range(const GroupShape& shape)
      : shape_(shape), meter_(shape.rows, shape.channels, shape.groups) {}

  static Statistics restore(const torch::autograd::variable_list& saved) {
    return Statistics(saved[0], saved[1]);
  }
  static torch::autograd::variable_list store(const Statistics& statistics) {
    return {statistics.inverse_tensor(), statistics.extremes_tensor()};
  }

  void measure(std::span<const float> x, const Statistics& statistics, std::size_t sample) {
    meter_.measure(x, statistics.inverse(sample), statistics.extremes(sample));
  }

  static at::Tensor traceable_inverse(const at::Tensor& x, std::int64_t groups) {
    const auto chunks = static_cast<std::int64_t>(kRangeChunks);
    const std::int64_t chunk = x.size(1) / groups * x.size(2) * x.size(3) / chunks;
    const at::Tensor values = x.reshape({-1, groups, chunks, chunk});
    const at::Tensor range = (values.amax({3}) - values.amin({3})).mean({2});
    return 1.0 / (range * range_factor(static_cast<std::size_t>(chunk)) + kNormEpsilon);
  }

  void add_gradient(std::span<const float> /*x*/, const Statistics& statistics, std::size_t sample,
                    std::span<const double> d_inverse, std::span<float> dx) const {
    const double factor = range_factor(shape_.group_values() / kRangeChunks);
    const auto extremes = statistics.extremes(sample);
    for (std::size_t group = 0; group < shape_.groups; ++group) {
      const double inverse = statistics.inverse(sample)[group];
      const auto share =
          static_cast<float>(-factor * inverse * inverse * d_inverse[group] / kRangeChunks);
      for (std::size_t k = 0; k < kRangeChunks; ++k) {
        const std::size_t chunk = 2 * (group * kRangeChunks + k);
        dx[static_cast<std::size_t>(extremes[chunk])] += share;
        dx[static_cast<std::size_t>(extremes[chunk + 1])] -= share;
      }
    }
  }

 private:
  GroupShape shape_;
  RangeMeter meter_;
};

/// Computes the scale of each channel: weight times the factor of its group.
void spread(std::span<const float> weight, std::span<const float> inverse, const GroupShape& shape,
            std::span<float> scale) {
  shape.for_each_channel(
      [&](std::size_t c, std::size_t group) { scale[c] = weight[c] * inverse[group]; });
}

template <class Divisor>
at::Tensor evonorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const at::Tensor& v, at::TensorList residual, const GroupShape& shape,
                   const typename Divisor::Statistics& statistics) {
  at::Tensor y = at::empty(x.sizes(), x.options().memory_format(kChannelsLast));
  const ImageValues in(x), add(residual.empty() ? at::Tensor() : residual[0]), out(y);
  at::parallel_for(0, x.size(0), 1, [&](auto first, auto last) {
    Divisor divisor(shape);
    const RowBlocks blocks = shape.blocks();
    std::vector<float> scale(shape.channels);
    const GatedMap map{values(v), scale, values(bias)};
    for (auto n = first; n < last; ++n) {
      const auto i = static_cast<std::size_t>(n);
      const auto sample = shape.read(in, i, Scratch::input);
      const auto summand = shape.read(add, i, Scratch::other);
      divisor.measure(sample, statistics, i);
      spread(values(weight), statistics.inverse(i), shape, scale);
      shape.write(out, i, Scratch::output, [&](std::span<float> y_sample) {
        for (std::size_t b = blocks.count(); b-- > 0;) {
          gate_rows(Divisor::kSigmoid, blocks.cut(sample, b), blocks.cut(summand, b), map,
                    blocks.cut(y_sample, b));
        }
      });
    }
  });
  return y;
}

struct EvoNormGradients {
  at::Tensor x, weight, bias, v;
};

/// Sums of each sample, (samples, c). The parameters' gradients are sums of these.
struct SampleSums {
  explicit SampleSums(const GroupShape& shape)
      : channels(shape.channels),
        weight(shape.samples * channels),
        bias(weight.size()),
        v(weight.size()) {}

  std::size_t channels;
  std::vector<double> weight, bias, v;
};

/// Computes the gradients of samples; one per thread.
template <class Divisor>
class SampleGradient {
 public:
  SampleGradient(const GroupShape& shape, std::span<const float> weight, std::span<const float> v,
                 const typename Divisor::Statistics& statistics)
      : shape_(shape),
        weight_(weight),
        v_(v),
        statistics_(statistics),
        divisor_(shape),
        scale_(shape.channels),
        block_(3 * shape.channels),
        d_inverse_(shape.groups) {}

  void compute(std::size_t i, std::span<const float> g, std::span<const float> x,
               std::span<float> dx, SampleSums& totals) {
    const RowBlocks blocks = shape_.blocks();
    const std::size_t channels = shape_.channels, row = i * channels;
    spread(weight_, statistics_.inverse(i), shape_, scale_);
    const auto part = [&](std::size_t k) {
      return std::span(block_).subspan(k * channels, channels);
    };
    const GatedSums sums{part(0), part(1), part(2)};
    for (std::size_t b = 0; b < blocks.count(); ++b) {
      gate_gradient(Divisor::kSigmoid, blocks.cut(g, b), blocks.cut(x, b), {v_, scale_, {}}, sums,
                    blocks.cut(dx, b));
      for (std::size_t c = 0; c < channels; ++c) {
        totals.bias[row + c] += sums.sums[c];
        totals.weight[row + c] += sums.products[c];
        totals.v[row + c] += sums.slopes[c];
      }
    }
    std::ranges::fill(d_inverse_, 0.0);
    const auto inverse = statistics_.inverse(i);
    shape_.for_each_channel([&](std::size_t c, std::size_t group) {
      d_inverse_[group] += weight_[c] * totals.weight[row + c];
      totals.weight[row + c] *= inverse[group];
      totals.v[row + c] *= scale_[c];
    });
    divisor_.add_gradient(x, statistics_, i, d_inverse_, dx);
  }

 private:
  GroupShape shape_;
  std::span<const float> weight_, v_;
  const typename Divisor::Statistics& statistics_;
  Divisor divisor_;
  std::vector<float> scale_, block_;  // (c), (3, c)
  std::vector<double> d_inverse_;     // (groups)
};

template <class Divisor>
EvoNormGradients evonorm_gradients(const at::Tensor& g, const at::Tensor& x,
                                   const at::Tensor& weight, const at::Tensor& v,
                                   const GroupShape& shape,
                                   const typename Divisor::Statistics& statistics) {
  EvoNormGradients result;
  result.x = at::empty_like(x);
  SampleSums totals(shape);
  const ImageValues grad(g), in(x), dx(result.x);
  at::parallel_for(0, x.size(0), 1, [&](auto first, auto last) {
    SampleGradient<Divisor> sample(shape, values(weight), values(v), statistics);
    for (auto n = first; n < last; ++n) {
      const auto i = static_cast<std::size_t>(n);
      shape.write(dx, i, Scratch::output, [&](std::span<float> dx_sample) {
        sample.compute(i, shape.read(grad, i, Scratch::gradient), shape.read(in, i, Scratch::input),
                       dx_sample, totals);
      });
    }
  });
  result.weight = add_samples(totals.weight, shape);
  result.bias = add_samples(totals.bias, shape);
  result.v = add_samples(totals.v, shape);
  return result;
}

/// The residual is passed as a list of none or one, which works in all LibTorch versions.
template <class Divisor>
class EvoNormalize : public torch::autograd::Function<EvoNormalize<Divisor>> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& v,
                            at::TensorList residual, std::int64_t groups) {
    const GroupShape shape(x, groups);
    const typename Divisor::Statistics statistics(shape);
    at::Tensor y = evonorm<Divisor>(x, weight, bias, v, residual, shape, statistics);
    context->saved_data["residual"] = !residual.empty();
    context->saved_data["groups"] = groups;
    torch::autograd::variable_list saved = Divisor::store(statistics);
    saved.insert(saved.end(), {x, weight, v});
    context->save_for_backward(saved);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const at::Tensor x = saved[2], g = outputs[0].contiguous(kChannelsLast);
    const GroupShape shape(x, context->saved_data["groups"].toInt());
    const auto statistics = Divisor::restore(saved);
    EvoNormGradients d = evonorm_gradients<Divisor>(g, x, saved[3], saved[4], shape, statistics);
    torch::autograd::variable_list result{d.x, d.weight, d.bias, d.v};
    if (context->saved_data["residual"].toBool()) result.push_back(g);
    result.resize(result.size() + 1);  // no gradient for groups
    return result;
  }
};

template <class Divisor>
class EvoNorm final : public Normalization {
 public:
  EvoNorm(std::int64_t channels, std::int64_t groups)
      : groups_(groups),
        weight_(register_parameter("weight", at::ones({channels}))),
        bias_(register_parameter("bias", at::zeros({channels}))),
        v_(register_parameter("v", at::ones({channels}))) {}

  bool replaces_activation() const override { return true; }

 private:
  at::Tensor apply(const at::Tensor& x, at::TensorList residual, bool /*relu*/) override {
    if constexpr (std::is_same_v<Divisor, Range>) {
      chunk_values(GroupShape(x, groups_).group_values(), path(), "the values of a group");
    }
    return EvoNormalize<Divisor>::apply(x, weight_, bias_, v_, residual, groups_);
  }

  at::Tensor traceable(const at::Tensor& x) const override {
    const auto by_channel = [](const at::Tensor& values) { return values.view({1, -1, 1, 1}); };
    const at::Tensor z = x * by_channel(v_);
    const at::Tensor gate = Divisor::kSigmoid == Sigmoid::exact
                                ? at::sigmoid(z)
                                : at::clamp(z / 6 + 0.5, at::Scalar(0.0), at::Scalar(1.0));
    // The factor of a sample's group, for each of its channels.
    const at::Tensor factor =
        Divisor::traceable_inverse(x, groups_).repeat_interleave(x.size(1) / groups_, 1);
    return x * gate * (factor * weight_).unsqueeze(2).unsqueeze(3) + by_channel(bias_);
  }

  at::Tensor by_torch(const at::Tensor& x) override {
    if constexpr (std::is_same_v<Divisor, Range>) return Normalization::by_torch(x);
    return traceable(x);
  }

  std::int64_t groups_;
  at::Tensor weight_, bias_, v_;  // (c)
};

}  // namespace

std::shared_ptr<Normalization> make_evonorm_s0(std::int64_t channels, std::int64_t groups) {
  return std::make_shared<EvoNorm<Variance>>(channels, groups);
}

std::shared_ptr<Normalization> make_range_evonorm(std::int64_t channels, std::int64_t groups) {
  return std::make_shared<EvoNorm<Range>>(channels, groups);
}

}  // namespace eqt::model
