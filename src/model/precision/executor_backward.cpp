// SPDX-License-Identifier: Apache-2.0
// The backward pass of Executor.
#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "int8/quantize.hpp"
#include "model/precision/executor.hpp"
#include "model/precision/float_gradient.hpp"
#include "model/precision/passes.hpp"
#include "model/precision/windows.hpp"

namespace eqt::model::precision {
namespace {

/// What is rounded; part of the key of random bits.
enum ErrorKind { kOfNode = 0, kOfBranch = 1 };

}  // namespace

std::span<float> Executor::of(std::span<float> gradient, std::size_t slice) const {
  const TensorSlice& s = plan_.parameters[slice];
  return gradient.subspan(s.offset, s.count);
}

RandomKey Executor::key_for(int index, int kind) const {
  RandomKey key = key_;
  key.slice = static_cast<std::uint32_t>(2 * index + kind);
  return key;
}

void Executor::backward(std::span<const float> means, const RandomKey& key,
                        std::span<float> gradient, const SliceReady& ready) {
  EQT_CHECK(pass_ == Pass::training && means.size() == means_.size(), "{} gradients of {} means",
            means.size(), means_.size());
  key_ = key;
  start_error(means);
  for (int i = static_cast<int>(plan_.nodes.size()) - 1; i >= 0; --i) {
    if (i < static_cast<int>(plan_.nodes.size()) - 1) gather_error(i, gradient, ready);
    if (plan_.node(i).kind == NodeKind::layer) sum_error(i, gradient, ready);
  }
}

/// The last node's error: each pixel has an equal share of the mean's.
void Executor::start_error(std::span<const float> means) {
  const int last = static_cast<int>(plan_.nodes.size()) - 1;
  const Node& to = plan_.nodes.back();
  const auto channels = static_cast<std::size_t>(to.channels);
  const float share = 1.0f / static_cast<float>(to.pixels());
  const std::span<float> sample(first_.get(), to.count());
  const auto error = [&](std::size_t n) {
    for (std::size_t i = 0; i < sample.size(); ++i)
      sample[i] = means[n * channels + i % channels] * share;
    return sample;
  };
  const float range = shared_range(false, "errors of the means", error);
  for (std::size_t n = 0; n < samples_; ++n) {
    error(n);
    round_error(last, n, 1, range);
  }
}

/// The values of `first_` become the errors of some samples. @param range  0: each sample's own
void Executor::round_error(int i, std::size_t first, std::size_t n, float range) {
  const Samples to = error(i);
  const Node& of_node = plan_.node(i);
  const int near = of_node.kind == NodeKind::layer ? of_node.main : plan_.node(of_node.input).main;
  const std::string_view what = label("errors of activations", plan_.branch(near).name);
  for (std::size_t k = 0; k < n; ++k)
    to.scales[first + k] = quantize_error({first_.get() + k * to.count, to.count}, range, what,
                                          key_for(i, kOfNode), first + k, to.sample(first + k));
}

/// The error of a node, from those of all that read it; and the gradients of the convolutions that
/// read it.
void Executor::gather_error(int i, std::span<float> gradient, const SliceReady& ready) {
  const Node& to = plan_.node(i);
  const auto& readers = plan_.readers_of(i);
  for (const int b : readers.branches) {
    Layer& layer = layer_of(b);
    std::ranges::fill(of(gradient, plan_.branch(b).weight), 0.0f);
    std::ranges::fill(layer.bias_sums, 0.0);
    layer.error_range =
        shared_range(false, label("errors of the convolution", plan_.branch(b).name),
                     [&](std::size_t n) { return branch_error(b, n); });
  }
  const std::size_t step = chunk(i);
  SharedRange shared;
  for (std::size_t first = 0; i > 0 && shares_ranges() && first < samples_; first += step) {
    const std::size_t n = std::min(step, samples_ - first);
    sum_of_readers(i, first, n, {});
    for (std::size_t k = 0; k < n; ++k)
      shared.add(int8::largest_magnitude({first_.get() + k * to.count(), to.count()}, "errors"));
  }
  for (std::size_t first = 0; first < samples_; first += step) {
    const std::size_t n = std::min(step, samples_ - first);
    sum_of_readers(i, first, n, gradient);
    if (i > 0) round_error(i, first, n, shared.value(false));
  }
  for (std::size_t b = readers.branches.size(); b-- > 0;)
    finish_weight(readers.branches[b], gradient, ready);
}

/// The errors of some samples into `first_`, and into the gradient unless it is empty. The pictures
/// have no error.
void Executor::sum_of_readers(int i, std::size_t first, std::size_t n, std::span<float> gradient) {
  const Node& to = plan_.node(i);
  const auto& readers = plan_.readers_of(i);
  const std::span<float> sum(first_.get(), n * to.count());
  bool empty = true;
  for (const int b : readers.branches) {
    if (i == 0) {
      through_branch(b, first, n, {.gradient = gradient, .input_error = {}});
      continue;
    }
    const std::span<float> part(empty ? first_.get() : third_.get(), sum.size());
    through_branch(b, first, n, {.gradient = gradient, .input_error = part});
    if (!empty) add(part, sum);
    empty = false;
  }
  if (i == 0) return;
  if (empty) std::ranges::fill(sum, 0.0f);
  for (std::size_t k = 0; k < n; ++k)
    for (const int m : readers.nodes)
      through_node(m, i, first + k, sum.subspan(k * to.count(), to.count()));
}

/// The float errors of a sample at the output of a convolution, times the weights' scales.
std::span<const float> Executor::branch_error(int b, std::size_t n) {
  const Samples x = branch(b), g = error(plan_.branch(b).node);
  const std::span<float> values(second_.get(), x.count);
  Layer& layer = layer_of(b);
  layer.norm->error(rounded(g, n), rounded(x, n), n, layer.convolution.weight_scales(), values);
  return values;
}

/// @param range  0: the sample's own. @return the scale
float Executor::quantize_error(std::span<const float> x, float range, std::string_view what,
                               const RandomKey& key, std::size_t n, std::span<std::int8_t> q) {
  const float all = range > 0 ? range : int8::largest_magnitude(x, what);
  if (options_.error_rounding == ErrorRounding::nearest) return int8::quantize_signed(all, x, q);
  return int8::quantize_stochastic(all, x, q, key, static_cast<std::uint32_t>(n));
}

/// Normalization and convolution of some samples.
void Executor::through_branch(int b, std::size_t first, std::size_t n, const Wanted& wanted) {
  Layer& layer = layer_of(b);
  const std::size_t count = branch(b).count;
  const bool learns = !wanted.gradient.empty();
  const std::string_view what = label("errors of the convolution", plan_.branch(b).name);
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t s = first + k;
    const auto values = branch_error(b, s);
    if (learns && !layer.bias_sums.empty()) {
      const auto sums = std::span(double_sums_).first(layer.bias_sums.size());
      channel_sums(values, sums);
      for (std::size_t c = 0; c < sums.size(); ++c) layer.bias_sums[c] += sums[c];
    }
    rounded_scales_[k] = quantize_error(values, layer.error_range, what, key_for(b, kOfBranch), s,
                                        {rounded_.get() + k * count, count});
    if (learns) take_wide_error(b, s, k, values, wanted.gradient);
  }
  if (learns) add_weight_gradient(b, first, n, wanted.gradient);
  if (!wanted.input_error.empty())
    layer.convolution.backward_input({rounded_.get(), n * count}, {rounded_scales_.data(), n},
                                     wanted.input_error, {scratch_.get(), scratch_bytes_});
}

/// Where weight gradients have errors of their own: sample `k` of a chunk.
void Executor::take_wide_error(int b, std::size_t n, std::size_t k, std::span<const float> values,
                               std::span<float> gradient) {
  const Branch& branch_plan = plan_.branch(b);
  const std::size_t count = values.size();
  if (options_.weight_gradient == WeightGradient::fp32) {
    const Samples in = node(branch_plan.input);
    const std::span<float> x(third_.get(), in.count);
    int8::dequantize(in.sample(n), zero_point(branch_plan.input), in.scales[n], x);
    add_float_gradient(branch_plan.shape, x, values, of(gradient, branch_plan.weight));
  }
  if (options_.weight_gradient == WeightGradient::int16) {
    const float range = layer_of(b).error_range;
    const std::span<std::int16_t> wide(wide_.get(), count);
    low_scales_[k] =
        int8::quantize_wide(range > 0 ? range : int8::largest_magnitude(values), values, wide);
    high_scales_[k] = low_scales_[k] * int8::kHighDigit;
    int8::split_wide(wide, {high_.get() + k * count, count}, {low_.get() + k * count, count});
  }
}

void Executor::add_weight_gradient(int b, std::size_t first, std::size_t n,
                                   std::span<float> gradient) {
  const Branch& branch_plan = plan_.branch(b);
  const Samples in = node(branch_plan.input).part(first, n);
  const std::size_t count = n * branch(b).count;
  const auto add = [&](const LongArray<std::int8_t>& errors, const std::vector<float>& scales) {
    layer_of(b).convolution.add_weight_gradient(in.values, zero_point(branch_plan.input), in.scales,
                                                {errors.get(), count}, std::span(scales).first(n),
                                                of(gradient, branch_plan.weight),
                                                {scratch_.get(), scratch_bytes_});
  };
  if (options_.weight_gradient == WeightGradient::int8) add(rounded_, rounded_scales_);
  if (options_.weight_gradient == WeightGradient::int16) {
    add(high_, high_scales_);
    add(low_, low_scales_);
  }
}

/// Adds what a node that reads `node` as a residual or pools it says about a sample's error.
void Executor::through_node(int i, int node_index, std::size_t n, std::span<float> sum) {
  const Node& from = plan_.node(i);
  const Node& to = plan_.node(node_index);
  const Samples g = error(i);
  const auto errors = g.sample(n);
  const float scale = g.scales[n];
  const auto channels = static_cast<std::size_t>(to.channels);
  if (from.kind == NodeKind::max_pool) {
    const auto x = node(node_index).sample(n), y = node(i).sample(n);
    const std::span<std::int8_t> left(rounded_.get(), errors.size());
    std::ranges::copy(errors, left.begin());
    for_each_window(to, from, [&](std::size_t pooled, std::size_t source) {
      for (std::size_t c = 0; c < channels; ++c) {
        if (left[pooled + c] == 0 || x[source + c] != y[pooled + c]) continue;
        sum[source + c] += static_cast<float>(left[pooled + c]) * scale;
        left[pooled + c] = 0;  // the first of equal values gets it all
      }
    });
  } else if (from.residual == Residual::identity) {
    add_scaled(errors, 0, scale, sum);
  } else {
    for_each_kept_pixel(to, from, [&](std::size_t source, std::size_t target) {
      add_scaled(errors.subspan(target, channels), 0, scale, sum.subspan(source, channels));
    });
  }
}

/// Takes the weights' scales out of the sum, which the errors had.
void Executor::finish_weight(int b, std::span<float> gradient, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  const auto scales = layer_of(b).convolution.weight_scales();
  const std::span<float> dw = of(gradient, branch_plan.weight);
  const std::size_t row = dw.size() / scales.size();
  for (std::size_t o = 0; o < scales.size(); ++o)
    for (float& value : dw.subspan(o * row, row)) value /= scales[o];
  if (branch_plan.bias) finish_bias(b, gradient, ready);
  ready(branch_plan.weight);
}

void Executor::finish_bias(int b, std::span<float> gradient, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  const Layer& layer = layer_of(b);
  const auto scales = layer.convolution.weight_scales();
  const std::span<float> bias = of(gradient, *branch_plan.bias);
  for (std::size_t c = 0; c < bias.size(); ++c)
    bias[c] = layer.bias_sums.empty()
                  ? 0.0f
                  : static_cast<float>(layer.bias_sums[c] / static_cast<double>(scales[c]));
  ready(*branch_plan.bias);
}

/// ReLU's gradient, and the sums of the norms behind a node.
void Executor::sum_error(int i, std::span<float> gradient, const SliceReady& ready) {
  const Node& to = plan_.node(i);
  const Samples g = error(i);
  const std::span<float> before(first_.get(), to.count());
  const std::array<int, 2> branches = {to.main, to.residual == Residual::branch ? to.second : -1};
  for (const int b : branches)
    if (b >= 0) layer_of(b).norm->start_backward();
  for (std::size_t n = 0; n < samples_; ++n) {
    if (plan_.rectifies && to.residual == Residual::none) {
      layer_of(to.main).norm->gate(rounded(branch(to.main), n), n, g.sample(n));
    } else if (plan_.rectifies) {
      add_up(i, n, before);
      gate(before, g.sample(n));
    }
    for (const int b : branches)
      if (b >= 0) layer_of(b).norm->sum_error(rounded(g, n), rounded(branch(b), n), n);
  }
  for (const int b : {branches[1], branches[0]})
    if (b >= 0) finish_norm(b, gradient, ready);
}

void Executor::finish_norm(int b, std::span<float> gradient, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  if (!branch_plan.norm) {
    layer_of(b).norm->finish_backward({});
    return;
  }
  const std::size_t weight = *branch_plan.norm, bias = weight + 1, v = weight + 2;
  layer_of(b).norm->finish_backward({.weight = of(gradient, weight),
                                     .bias = of(gradient, bias),
                                     .v = plan_.rectifies ? std::span<float>() : of(gradient, v)});
  if (!plan_.rectifies) ready(v);
  ready(bias);
  ready(weight);
}

}  // namespace eqt::model::precision
