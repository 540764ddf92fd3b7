// SPDX-License-Identifier: Apache-2.0
// The backward pass of Executor.
#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "int8/quantize.hpp"
#include "model/precision/executor.hpp"
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
  for (std::size_t n = 0; n < samples_; ++n) {
    for (std::size_t i = 0; i < to.count(); ++i)
      first_[i] = means[n * channels + i % channels] * share;
    round_error(last, n, 1);
  }
}

/// The values of `first_` become the errors of some samples.
void Executor::round_error(int i, std::size_t first, std::size_t n) {
  const Samples to = error(i);
  const Node& of_node = plan_.node(i);
  const int near = of_node.kind == NodeKind::layer ? of_node.main : plan_.node(of_node.input).main;
  const std::string_view what = label("errors of activations", plan_.branch(near).name);
  for (std::size_t k = 0; k < n; ++k) {
    to.scales[first + k] =
        int8::quantize_stochastic({first_.get() + k * to.count, to.count}, to.sample(first + k),
                                  key_for(i, kOfNode), static_cast<std::uint32_t>(first + k), what);
  }
}

/// The error of a node, from those of all that read it; and the gradients of the convolutions that
/// read it.
void Executor::gather_error(int i, std::span<float> gradient, const SliceReady& ready) {
  const Node& to = plan_.node(i);
  const auto& readers = plan_.readers_of(i);
  for (const int b : readers.branches) {
    std::ranges::fill(of(gradient, plan_.branch(b).weight), 0.0f);
    std::ranges::fill(layer_of(b).bias_sums, 0.0);
  }
  const std::size_t step = chunk(i);
  for (std::size_t first = 0; first < samples_; first += step) {
    const std::size_t n = std::min(step, samples_ - first);
    const std::span<float> sum(first_.get(), n * to.count());
    bool empty = true;
    for (const int b : readers.branches) {
      if (i == 0) {
        through_branch(b, first, n, gradient, {});
        continue;
      }
      const std::span<float> part(empty ? first_.get() : third_.get(), sum.size());
      through_branch(b, first, n, gradient, part);
      if (!empty) add(part, sum);
      empty = false;
    }
    if (i == 0) continue;
    if (empty) std::ranges::fill(sum, 0.0f);
    for (std::size_t k = 0; k < n; ++k)
      for (const int m : readers.nodes)
        through_node(m, i, first + k, sum.subspan(k * to.count(), to.count()));
    round_error(i, first, n);
  }
  for (std::size_t b = readers.branches.size(); b-- > 0;)
    finish_weight(readers.branches[b], gradient, ready);
}

/// Normalization and convolution of some samples. @param error  of the input; empty: not needed
void Executor::through_branch(int b, std::size_t first, std::size_t n, std::span<float> gradient,
                              std::span<float> input_error) {
  const Branch& branch_plan = plan_.branch(b);
  Layer& layer = layer_of(b);
  const Samples x = branch(b), g = error(branch_plan.node), in = node(branch_plan.input);
  const std::string_view what = label("errors of the convolution", branch_plan.name);
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t s = first + k;
    const std::span<float> values(second_.get(), x.count);
    layer.norm->error(rounded(g, s), rounded(x, s), s, layer.convolution.weight_scales(), values);
    if (!layer.bias_sums.empty()) {
      const auto sums = std::span(double_sums_).first(layer.bias_sums.size());
      channel_sums(values, sums);
      for (std::size_t c = 0; c < sums.size(); ++c) layer.bias_sums[c] += sums[c];
    }
    rounded_scales_[k] =
        int8::quantize_stochastic(values, {rounded_.get() + k * x.count, x.count},
                                  key_for(b, kOfBranch), static_cast<std::uint32_t>(s), what);
  }
  const std::span<const std::int8_t> errors(rounded_.get(), n * x.count);
  const std::span<const float> error_scales(rounded_scales_.data(), n);
  const std::span<std::byte> scratch(scratch_.get(), scratch_bytes_);
  const Samples inputs = in.part(first, n);
  layer.convolution.add_weight_gradient(inputs.values, zero_point(branch_plan.input), inputs.scales,
                                        errors, error_scales, of(gradient, branch_plan.weight),
                                        scratch);
  if (!input_error.empty())
    layer.convolution.backward_input(errors, error_scales, input_error, scratch);
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
