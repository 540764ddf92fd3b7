// SPDX-License-Identifier: Apache-2.0
// The gradients of convolutions' weights and biases in the backward pass of Executor.
#include <algorithm>

#include "int8/quantize.hpp"
#include "model/own/executor.hpp"
#include "model/own/float_gradient.hpp"
#include "model/own/passes.hpp"

namespace eqt::model::precision {

/// Gives the gradients of the convolutions that read a node their places, with zeros.
template <typename Operand>
void Executor<Operand>::start_weights(int i, std::span<float> gradient) {
  std::size_t sums = 0, kept = 0;
  for (const int b : plan_.readers_of(i).branches) {
    const Branch& branch_plan = plan_.branch(b);
    WeightSum& sum = weight_sum(b);
    sum = {.how = how_to_sum(branch_plan),
           .gradient = of(gradient, branch_plan.weight),
           .others = {},
           .errors = {},
           .scales = {}};
    std::ranges::fill(sum.gradient, 0.0f);
    if (sum.how == Sums::in_lanes) {
      const std::size_t count = (lanes_for(samples_) - 1) * sum.gradient.size();
      sum.others = {sums_of_lanes_.get() + sums, count};
      sums += count;
      std::ranges::fill(sum.others, 0.0f);
    }
    if (sum.how == Sums::by_outputs) {
      const std::size_t count = samples_ * branch(b).count;
      sum.errors = {kept_errors_.get() + kept, count};
      kept += count;
      sum.scales =
          std::span(kept_scales_).subspan(static_cast<std::size_t>(b) * kept_samples_, samples_);
    }
  }
}

/// Takes the errors of sample `k` of a chunk, where weight gradients have errors of their own.
template <typename Operand>
void Executor<Operand>::take_wide_error(int b, std::size_t n, std::size_t k,
                                        std::span<const float> values, Room& room) {
  const Branch& branch_plan = plan_.branch(b);
  const std::size_t count = values.size();
  if (options_.weight_gradient == WeightGradient::fp32) {
    if constexpr (kIsRounded<Operand>) {
      const Samples in = node(branch_plan.input);
      const std::span<float> x(room.third.get(), in.count);
      int8::dequantize(in.sample(n), zero_point(branch_plan.input), in.scales[n], x);
      add_float_gradient(branch_plan.shape, x, values, weight_sum(b).gradient);
    }
    return;
  }
  const float range = layer_of(b).error_range;
  const std::span<std::int16_t> wide(room.wide.get(), count);
  room.low_scales[k] =
      int8::quantize_wide(range > 0 ? range : int8::largest_magnitude(values), values, wide);
  room.high_scales[k] = room.low_scales[k] * int8::kHighDigit;
  int8::split_wide(wide, {room.high.get() + k * count, count}, {room.low.get() + k * count, count});
}

/// Adds the weight gradient of the errors in the room.
template <typename Operand>
void Executor<Operand>::add_weight_gradient(int b, const Lane& lane, std::size_t first,
                                            std::size_t n) {
  const Branch& branch_plan = plan_.branch(b);
  const WeightSum& sum = weight_sum(b);
  Room& room = lane.room;
  const Samples in = node(branch_plan.input).part(first, n);
  const std::size_t count = n * branch(b).count, weights = sum.gradient.size();
  const std::span<float> to = sum.how == Sums::in_order || lane.index == 0
                                  ? sum.gradient
                                  : sum.others.subspan((lane.index - 1) * weights, weights);
  const auto add = [&](const auto& errors, const std::vector<float>& scales) {
    layer_of(b).convolution.add_weight_gradient(in.values, zero_point(branch_plan.input), in.scales,
                                                {errors.get(), count}, std::span(scales).first(n),
                                                to, {room.scratch.get(), scratch_bytes_});
  };
  if (options_.weight_gradient == WeightGradient::int8) add(room.rounded, room.rounded_scales);
  if constexpr (kIsRounded<Operand>) {
    if (options_.weight_gradient == WeightGradient::int16) {
      add(room.high, room.high_scales);
      add(room.low, room.low_scales);
    }
  }
}

/// Sums the weight gradient of the errors of all samples; each thread has some output channels.
template <typename Operand>
void Executor<Operand>::sum_by_outputs(int b) {
  const Branch& branch_plan = plan_.branch(b);
  const WeightSum& sum = weight_sum(b);
  const std::size_t count = branch(b).count, step = chunk(branch_plan.input);
  const std::size_t parts = threads_.count();
  threads_.run(parts, [&](std::size_t part) {
    for (std::size_t first = 0; first < samples_; first += step) {
      const std::size_t n = std::min(step, samples_ - first);
      const Samples in = node(branch_plan.input).part(first, n);
      layer_of(b).convolution.add_weight_gradient(
          in.values, zero_point(branch_plan.input), in.scales,
          sum.errors.subspan(first * count, n * count), sum.scales.subspan(first, n), sum.gradient,
          {rooms_[part].scratch.get(), scratch_bytes_}, {.index = part, .count = parts});
    }
  });
}

/// Adds the lanes' sums up, and takes the weights' scales out, which the errors had.
template <typename Operand>
void Executor<Operand>::finish_weight(int b, std::span<float> gradient, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  WeightSum& sum = weight_sum(b);
  const auto scales = layer_of(b).convolution.weight_scales();
  const std::span<float> dw = sum.gradient;
  if (sum.how == Sums::by_outputs) sum_by_outputs(b);
  for (std::size_t i = 0; i < sum.others.size(); i += dw.size())
    add(sum.others.subspan(i, dw.size()), dw);
  const std::size_t row = dw.size() / scales.size();
  const std::size_t parts = sum.how == Sums::by_outputs ? threads_.count() : 1;
  threads_.run(parts, [&](std::size_t part) {
    const std::size_t end = scales.size() * (part + 1) / parts;
    for (std::size_t o = scales.size() * part / parts; o < end; ++o)
      for (float& value : dw.subspan(o * row, row)) value /= scales[o];
  });
  if (branch_plan.bias) finish_bias(b, gradient, ready);
  ready(branch_plan.weight);
}

template <typename Operand>
void Executor<Operand>::finish_bias(int b, std::span<float> gradient, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  const Layer& layer = layer_of(b);
  const auto scales = layer.convolution.weight_scales();
  const std::span<float> bias = of(gradient, *branch_plan.bias);
  for (std::size_t c = 0; c < bias.size(); ++c) {
    double sum = 0;
    for (std::size_t k = c; k < layer.bias_sums.size(); k += bias.size()) sum += layer.bias_sums[k];
    bias[c] = static_cast<float>(sum / static_cast<double>(scales[c]));
  }
  ready(*branch_plan.bias);
}

template class Executor<std::int8_t>;
template class Executor<float>;

}  // namespace eqt::model::precision
