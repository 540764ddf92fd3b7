// SPDX-License-Identifier: Apache-2.0
// The backward pass of Executor: errors, normalization, and the gradients of convolutions' weights
// and biases.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/error.hpp"
#include "int8/quantize.hpp"
#include "model/gelu_kernels.hpp"
#include "model/own/executor.hpp"
#include "model/own/float_convolution.hpp"
#include "model/own/passes.hpp"
#include "model/pool_kernels.hpp"

namespace eqt::model::precision {
namespace {

/// ErrorKind says what is rounded. It is part of the key of random bits.
enum ErrorKind { kOfNode = 0, kOfBranch = 1 };

}  // namespace

template <typename Operand>
std::span<float> Executor<Operand>::gradient_of(std::size_t tensor,
                                                std::span<float> gradient) const {
  if (!plan_.trains(tensor)) return {};
  return plan_.values(tensor, gradient, std::span<float>());
}

template <typename Operand>
RandomKey Executor<Operand>::key_for(int index, int kind) const {
  RandomKey key = key_;
  key.slice = static_cast<std::uint32_t>(2 * index + kind);
  return key;
}

template <typename Operand>
void Executor<Operand>::backward(std::span<const float> means, const RandomKey& key,
                                 std::span<float> gradient, const SliceReady& ready) {
  EQT_CHECK(pass_ == Pass::training && means.size() == means_.size(), "{} gradients of {} means",
            means.size(), means_.size());
  key_ = key;
  if (!plan_.learns.back()) return;
  start_error(means);
  for (int i = static_cast<int>(plan_.nodes.size()) - 1; i >= 0; --i) {
    const Node& to = plan_.node(i);
    const bool adds_node = to.residual == Residual::identity || to.residual == Residual::padding;
    for (const int read : {i, adds_node ? to.second : i})
      if (computed_again_for(plan_, read) == i && !computed_again(read)) compute_again(read);
    if (i < static_cast<int>(plan_.nodes.size()) - 1) gather_error(i, gradient, ready);
    if (to.kind == NodeKind::layer && plan_.learns_at(i)) sum_error(i, gradient, ready);
  }
}

/// A node's values, as the forward pass rounded them.
template <typename Operand>
void Executor<Operand>::compute_again(int i) {
  const Samples to = now_->again(i);
  const auto channels = static_cast<std::size_t>(plan_.node(i).channels);
  for_each_lane([&](const Lane& lane) {
    for (std::size_t n = lane.first; n < lane.end; ++n)
      for_each_part(to.count, channels, [&](const Part& part) {
        round_again(zero_point(i), to.scales[n], activation(i, n, lane.room, part),
                    part.of(to.sample(n)));
      });
  });
  computed_again_[static_cast<std::size_t>(i)] = true;
}

/// The last node's error: each pixel has an equal share of the mean's, or those that are the
/// maximum.
template <typename Operand>
void Executor<Operand>::start_error(std::span<const float> means) {
  const int last = static_cast<int>(plan_.nodes.size()) - 1;
  const Node& to = plan_.nodes.back();
  const auto channels = static_cast<std::size_t>(to.channels);
  const float share = 1.0f / static_cast<float>(to.pixels());
  const auto error = [&](std::size_t n, Room& room) {
    const std::span<float> sample(room.first.get(), to.count());
    if (plan_.pooling == Pooling::maximum) {
      spread_over_maxima(n, means.subspan(n * channels, channels), room);
    } else {
      for (std::size_t c = 0; c < channels; ++c) sample[c] = means[n * channels + c] * share;
      for (std::size_t i = channels; i < sample.size(); i += channels)
        std::copy_n(sample.begin(), channels, &sample[i]);
    }
    through_activation(last, n, room, sample);
    return sample;
  };
  const float range = shared_range_of(false, "errors of the means", error);
  for_each_lane([&](const Lane& lane) {
    for (std::size_t n = lane.first; n < lane.end; ++n) {
      error(n, lane.room);
      round_error(last, lane, n, 1, range);
    }
  });
}

/// Puts the error of the last node into the room's first values. 8-bit values are often equal: each
/// of several maxima has an equal share, as in LibTorch's amax().
template <typename Operand>
void Executor<Operand>::spread_over_maxima(std::size_t n, Floats gradient, Room& room) {
  const int last = static_cast<int>(plan_.nodes.size()) - 1;
  const std::span<float> x = activation(last, n, room);
  const std::size_t channels = gradient.size();
  const Floats most = std::span(means_).subspan(n * channels, channels);
  const std::span<double> shares = std::span(room.double_sums).first(channels);
  std::ranges::fill(shares, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) shares[i % channels] += x[i] == most[i % channels];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    x[i] = x[i] == most[c] ? static_cast<float>(gradient[c] / shares[c]) : 0.0f;
  }
}

/// Multiplies by the derivative of GELU or hard swish. ReLU's is taken of rounded errors, in
/// sum_error().
template <typename Operand>
void Executor<Operand>::through_activation(int i, std::size_t n, Room& room,
                                           std::span<float> error) {
  const Nonlinearity nonlinearity = plan_.node(i).nonlinearity;
  if (nonlinearity != Nonlinearity::gelu && nonlinearity != Nonlinearity::hard_swish) return;
  const std::span<float> before(room.second.get(), error.size());
  add_up(i, n, whole(error.size()), before);
  if (nonlinearity == Nonlinearity::gelu) return gelu_gradient(error, before, error);
  hard_swish_gradient(before, error);
}

/// The room's first values become the errors of some samples. @param range  0: each sample's own
template <typename Operand>
void Executor<Operand>::round_error(int i, const Lane& lane, std::size_t first, std::size_t n,
                                    float range) {
  const Samples to = error(i);
  const Node& of_node = plan_.node(i);
  const int near = of_node.kind == NodeKind::layer ? of_node.main : plan_.node(of_node.input).main;
  const std::string_view what = label("errors of activations", plan_.branch(near).name, lane.room);
  for (std::size_t k = 0; k < n; ++k)
    to.scales[first + k] =
        quantize_error({lane.room.first.get() + k * to.count, to.count}, range, what,
                       key_for(i, kOfNode), first + k, to.sample(first + k));
}

/// The error of a node, from those of all that read it; and the gradients of the convolutions that
/// read it.
template <typename Operand>
void Executor<Operand>::gather_error(int i, std::span<float> gradient, const SliceReady& ready) {
  const Node& to = plan_.node(i);
  const auto& readers = plan_.readers_of(i);
  const bool learns = plan_.learns_at(i);
  for (const int m : readers.nodes)
    if (plan_.node(m).kind == NodeKind::scaled && plan_.learns_at(m))
      squeeze_backward(m, gradient, ready);
  start_weights(i, gradient);
  if (i == 0) std::ranges::fill(filter_sums_, 0.0);
  bool reads_errors = learns;
  for_each_passing(i, [&](int b) {
    Layer& layer = layer_of(b);
    std::ranges::fill(layer.bias_sums, 0.0);
    layer.error_range = shared_range_of(
        false, label("errors of the convolution", plan_.branch(b).name, rooms_.front()),
        [&](std::size_t n, Room& room) { return branch_error(b, n, room); });
    reads_errors = true;
  });
  if (!reads_errors) return;
  const std::size_t step = chunk(i);
  const auto measure = [&](const Lane& lane, SharedRange& shared) {
    for_each_chunk(lane, step, [&](std::size_t first, std::size_t n) {
      sum_of_readers(i, lane, first, n, false);
      for (std::size_t k = 0; k < n; ++k)
        shared.add(int8::largest_magnitude({lane.room.first.get() + k * to.count(), to.count()},
                                           "errors"));
    });
  };
  const float range = learns && i > 0 ? shared_range(false, measure) : 0;
  for_each_lane([&](const Lane& lane) {
    for_each_chunk(lane, step, [&](std::size_t first, std::size_t n) {
      sum_of_readers(i, lane, first, n, true);
      if (learns && i > 0) round_error(i, lane, first, n, range);
      if (learns && i == 0) through_filters(lane, first, n);
    });
  });
  for (std::size_t b = readers.branches.size(); b-- > 0;) {
    finish_bias(readers.branches[b], gradient, ready);
    finish_weight(readers.branches[b], ready);
  }
  if (learns && i == 0) finish_filters(gradient, ready);
}

/// The errors of some samples into the room's first values, unless the node is in front of all that
/// is trained, as pictures are.
/// @param learns  into the weights' gradients as well
template <typename Operand>
void Executor<Operand>::sum_of_readers(int i, const Lane& lane, std::size_t first, std::size_t n,
                                       bool learns) {
  const Node& to = plan_.node(i);
  const auto& readers = plan_.readers_of(i);
  const std::span<float> sum(lane.room.first.get(), n * to.count());
  bool empty = true;
  for_each_passing(i, [&](int b) {
    if (!plan_.learns_at(i)) {
      through_branch(b, lane, first, n, {.gradient = learns, .input_error = {}});
      return;
    }
    const std::span<float> part(empty ? sum.data() : lane.room.third.get(), sum.size());
    through_branch(b, lane, first, n, {.gradient = learns, .input_error = part});
    if (!empty) add(part, sum);
    empty = false;
  });
  if (!plan_.learns_at(i)) return;
  if (empty) std::ranges::fill(sum, 0.0f);
  for (std::size_t k = 0; k < n; ++k) {
    const std::span<float> sample = sum.subspan(k * to.count(), to.count());
    for (const int m : readers.nodes) through_node(m, i, first + k, lane.room, sample);
    through_activation(i, first + k, lane.room, sample);
  }
}

/// Adds to the sums of the filters' bias, from the errors of the first node in the room's first
/// values.
template <typename Operand>
void Executor<Operand>::through_filters(const Lane& lane, std::size_t first, std::size_t n) {
  const std::size_t count = plan_.nodes[0].count();
  Room& room = lane.room;
  const std::span<float> error(room.third.get(), n * count);
  std::copy_n(room.first.get(), error.size(), error.begin());
  const auto sums =
      std::span(room.double_sums).first(static_cast<std::size_t>(plan_.nodes[0].channels));
  const auto to = std::span(filter_sums_).subspan(lane.index * sums.size(), sums.size());
  for (std::size_t k = 0; k < n; ++k) {
    const std::span<float> sample = error.subspan(k * count, count);
    gelu_gradient(sample, filtered(first + k, room), sample);
    channel_sums(sample, sums);
    for (std::size_t c = 0; c < sums.size(); ++c) to[c] += sums[c];
  }
}

template <typename Operand>
void Executor<Operand>::finish_filters(std::span<float> gradient, const SliceReady& ready) {
  const std::span<float> bias = gradient_of(plan_.whitening->bias, gradient);
  for (std::size_t c = 0; c < bias.size(); ++c) {
    double sum = 0;
    for (std::size_t k = c; k < filter_sums_.size(); k += bias.size()) sum += filter_sums_[k];
    bias[c] = static_cast<float>(sum);
  }
  tell(ready, plan_.whitening->bias);
}

/// The float errors of a sample at a normalization's input, times the weights' scales.
template <typename Operand>
std::span<const float> Executor<Operand>::norm_error(int b, std::size_t n, const Part& part,
                                                     std::span<float> out) {
  Layer& layer = layer_of(b);
  SampleValues<Operand> g = error_behind(b, error(plan_.branch(b).node), n);
  g.values = part.of(g.values);
  layer.norm->error(g, rounded(branch(b), n, part), n, layer.convolution.weight_scales(), out);
  return out;
}

/// Whether the errors of a branch are computed twice, as is_in_parts() says of a node.
template <typename Operand>
bool Executor<Operand>::has_error_in_parts(int b) const {
  const Branch& branch_plan = plan_.branch(b);
  const Layer& layer = layers_[static_cast<std::size_t>(b)];
  return is_large(branch_plan.count()) && !branch_plan.pool && layer.bias_sums.empty() &&
         layer.norm->is_pixelwise() && !wide_errors();
}

/// The float errors of a sample at the output of a convolution, times the weights' scales.
template <typename Operand>
std::span<const float> Executor<Operand>::branch_error(int b, std::size_t n, Room& room) {
  const Branch& branch_plan = plan_.branch(b);
  const Samples x = branch(b);
  Layer& layer = layer_of(b);
  const std::span<float> of_norm((branch_plan.pool ? room.third : room.second).get(), x.count);
  norm_error(b, n, whole(x.count), of_norm);
  if (!branch_plan.pool) return of_norm;
  const std::size_t channels = branch_plan.channels();
  const std::size_t row = static_cast<std::size_t>(branch_plan.shape.out_width()) * channels;
  const std::size_t pooled_row = static_cast<std::size_t>(branch_plan.width()) * channels;
  const std::span<float> values(room.second.get(), branch_plan.shape.out_count());
  const auto places = std::span(layer.places).subspan(n * x.count, x.count);
  std::size_t to = 0;
  for (std::size_t at = 0; at < x.count; at += pooled_row, to += 2 * row)
    max_pool_gradient(of_norm.subspan(at, pooled_row), places.subspan(at, pooled_row), channels,
                      values.subspan(to, row), values.subspan(to + row, row));
  std::ranges::fill(values.subspan(to), 0.0f);
  return values;
}

/// @param range  0: the sample's own. @return the scale
template <typename Operand>
float Executor<Operand>::quantize_error(std::span<const float> x, float range,
                                        std::string_view what, const RandomKey& key, std::size_t n,
                                        std::span<Operand> q, std::size_t first_value) {
  const float all = range > 0 ? range : int8::largest_magnitude(x, what);
  const bool nearest = options_.error_rounding == ErrorRounding::nearest;
  return precision::round_error(nearest, all, x, q, key, static_cast<std::uint32_t>(n),
                                first_value);
}

/// Rounds the errors of a sample, the `k`th of a chunk, at the output of a convolution.
template <typename Operand>
void Executor<Operand>::round_branch_error(int b, const Lane& lane, std::size_t n, std::size_t k,
                                           const Wanted& wanted, std::span<Operand> q,
                                           float& scale) {
  Layer& layer = layer_of(b);
  Room& room = lane.room;
  const std::size_t channels = plan_.branch(b).channels();
  const std::string_view what = label("errors of the convolution", plan_.branch(b).name, room);
  if (has_error_in_parts(b)) {
    const auto errors = [&](const Part& part) {
      return norm_error(b, n, part, {room.second.get(), part.count});
    };
    float all = layer.error_range;
    if (kIsRounded<Operand> && all == 0) {
      const std::optional<float> found =
          layer.norm->largest_error(error_behind(b, error(plan_.branch(b).node), n),
                                    rounded(branch(b), n), n, layer.convolution.weight_scales());
      if (found && std::isfinite(*found)) all = *found;
    }
    if (kIsRounded<Operand> && all == 0)
      for_each_part(q.size(), channels, [&](const Part& part) {
        all = std::max(all, int8::largest_magnitude(errors(part), what));
      });
    for_each_part(q.size(), channels, [&](const Part& part) {
      scale =
          quantize_error(errors(part), all, what, key_for(b, kOfBranch), n, part.of(q), part.first);
    });
    return;
  }
  const auto values = branch_error(b, n, room);
  if (wanted.gradient && !layer.bias_sums.empty()) {
    const auto sums = std::span(room.double_sums).first(channels);
    const auto to = std::span(layer.bias_sums).subspan(lane.index * channels, channels);
    channel_sums(values, sums);
    for (std::size_t c = 0; c < channels; ++c) to[c] += sums[c];
  }
  scale = quantize_error(values, layer.error_range, what, key_for(b, kOfBranch), n, q);
  if constexpr (kIsRounded<Operand>)
    if (wanted.gradient && wide_errors() && plan_.trains(plan_.branch(b).weight))
      take_wide_error(b, n, k, values, room);
}

/// Normalization and convolution of some samples.
template <typename Operand>
void Executor<Operand>::through_branch(int b, const Lane& lane, std::size_t first, std::size_t n,
                                       const Wanted& wanted) {
  Layer& layer = layer_of(b);
  Room& room = lane.room;
  const WeightSum& sum = weight_sum(b);
  const std::size_t count = plan_.branch(b).shape.out_count();
  const bool adds = wanted.gradient && plan_.trains(plan_.branch(b).weight);
  const bool keeps = adds && sum.how == Sums::by_outputs;
  const std::span<Operand> errors = keeps ? sum.errors.subspan(first * count, n * count)
                                          : std::span(room.rounded.get(), n * count);
  const std::span<float> scales =
      keeps ? sum.scales.subspan(first, n) : std::span(room.rounded_scales).first(n);
  for (std::size_t k = 0; k < n; ++k)
    round_branch_error(b, lane, first + k, k, wanted, errors.subspan(k * count, count), scales[k]);
  if (adds && !keeps) add_weight_gradient(b, lane, first, n);
  if (!wanted.input_error.empty())
    layer.convolution.backward_input(errors, scales, wanted.input_error,
                                     {room.scratch.get(), scratch_bytes_});
}

/// The gradients of the layers that compute a node's factors, and the errors of the means.
template <typename Operand>
void Executor<Operand>::squeeze_backward(int i, std::span<float> gradient,
                                         const SliceReady& ready) {
  const Node& to = plan_.node(i);
  Squeeze& squeeze = squeezes_[to.squeeze];
  const Samples g = error(i), x = node(to.input);
  const auto channels = static_cast<std::size_t>(to.channels);
  const auto zero = static_cast<SumOf<Operand>>(zero_point(i));
  for_each_lane([&](const Lane& lane) {
    const auto sums = std::span(lane.room.operand_sums).first(channels);
    const auto products = std::span(lane.room.operand_products).first(channels);
    for (std::size_t n = lane.first; n < lane.end; ++n) {
      if constexpr (kIsRounded<Operand>) {
        error_sums(g.sample(n), x.sample(n), sums, products);
      } else {
        const auto centre = std::span(lane.room.shifts).first(channels);
        std::ranges::fill(centre, 0.0f);
        error_sums(g.sample(n), x.sample(n), centre, sums, products);
      }
      const double scale = static_cast<double>(g.scales[n]) * static_cast<double>(x.scales[n]);
      const std::span<float> errors = squeeze.factor_errors(n);
      for (std::size_t c = 0; c < channels; ++c)
        errors[c] = static_cast<float>(scale * static_cast<double>(products[c] - zero * sums[c]));
    }
  });
  squeeze.backward(
      squeeze_layers<const float>(to, [&](std::size_t t) { return values(t); }),
      squeeze_layers<float>(to, [&](std::size_t t) { return gradient_of(t, gradient); }));
  const SqueezePlan& layers = plan_.squeezes[to.squeeze];
  for (const std::size_t tensor :
       {layers.widen + 1, layers.widen, layers.narrow + 1, layers.narrow})
    tell(ready, tensor);
}

/// Adds what a node that reads `node` as a residual, pools or scales it says about a sample's
/// error.
template <typename Operand>
void Executor<Operand>::through_node(int i, int node_index, std::size_t n, Room& room,
                                     std::span<float> sum) {
  const Node& from = plan_.node(i);
  const Node& to = plan_.node(node_index);
  const Samples g = error(i);
  const auto errors = g.sample(n);
  const float scale = g.scales[n];
  const auto channels = static_cast<std::size_t>(to.channels);
  if (from.kind == NodeKind::max_pool) {
    const auto x = node(node_index).sample(n), y = node(i).sample(n);
    const std::span<Operand> left(room.rounded.get(), errors.size());
    std::ranges::copy(errors, left.begin());
    for_each_window(to, from, [&](std::size_t pooled, std::size_t source) {
      for (std::size_t c = 0; c < channels; ++c) {
        if (left[pooled + c] == 0 || x[source + c] != y[pooled + c]) continue;
        sum[source + c] += static_cast<float>(left[pooled + c]) * scale;
        left[pooled + c] = 0;  // the first of equal values gets it all
      }
    });
  } else if (from.kind == NodeKind::scaled) {
    Squeeze& squeeze = squeezes_[from.squeeze];
    const Floats by_channel = squeeze.factors(n), of_means = squeeze.mean_errors(n);
    const std::span factors = std::span(room.factors).first(channels);
    const std::span shifts = std::span(room.shifts).first(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      factors[c] = scale * by_channel[c];
      shifts[c] = of_means[c] / static_cast<float>(to.pixels());
    }
    affine(errors, factors, shifts, Output::added, sum);
  } else if (from.residual == Residual::identity) {
    add_scaled(errors, 0, scale, sum);
  } else {
    for_each_kept_pixel(to, from, [&](std::size_t source, std::size_t target) {
      add_scaled(errors.subspan(target, channels), 0, scale, sum.subspan(source, channels));
    });
  }
}

/// ReLU's gradient, and the sums of the norms behind a node.
template <typename Operand>
void Executor<Operand>::sum_error(int i, std::span<float> gradient, const SliceReady& ready) {
  const Node& to = plan_.node(i);
  const Samples g = error(i);
  // Those of which a gradient or an error is computed.
  const auto reads_sums = [&](int b) {
    return plan_.passes_errors(plan_.branch(b)) || plan_.trains_norm(plan_.branch(b)) ? b : -1;
  };
  const std::array<int, 2> branches = {
      reads_sums(to.main), to.residual == Residual::branch ? reads_sums(to.second) : -1};
  for (const int b : branches)
    if (b >= 0) layer_of(b).norm->start_backward();
  const auto sample = [&](std::size_t n, Room& room) {
    if (to.rectifies() && to.residual == Residual::none) {
      layer_of(to.main).norm->gate(rounded(branch(to.main), n), n, output_of(to), g.sample(n));
    } else if (to.rectifies()) {
      const std::span<float> before(room.first.get(), to.count());
      add_up(i, n, whole(to.count()), before);
      gate(before, g.sample(n));
    }
    for (const int b : branches)
      if (b >= 0) layer_of(b).norm->sum_error(error_behind(b, g, n), rounded(branch(b), n), n);
  };
  for_each_lane([&](const Lane& lane) {
    for (std::size_t n = lane.first; n < lane.end; ++n) sample(n, lane.room);
  });
  for (const int b : {branches[1], branches[0]})
    if (b >= 0) finish_norm(b, gradient, ready);
}

template <typename Operand>
void Executor<Operand>::finish_norm(int b, std::span<float> gradient, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  if (!branch_plan.norm) {
    layer_of(b).norm->finish_backward({});
    return;
  }
  const std::size_t weight = *branch_plan.norm, bias = weight + 1, v = weight + 2;
  const bool activates = plan_.norm_activates;
  layer_of(b).norm->finish_backward(
      {.weight = gradient_of(weight, gradient),
       .bias = gradient_of(bias, gradient),
       .v = activates ? gradient_of(v, gradient) : std::span<float>()});
  if (activates) tell(ready, v);
  tell(ready, bias);
  tell(ready, weight);
}

/// Gives the gradients of the convolutions that read a node their places, with zeros.
template <typename Operand>
void Executor<Operand>::start_weights(int i, std::span<float> gradient) {
  std::size_t sums = 0, kept = 0;
  for (const int b : plan_.readers_of(i).branches) {
    const Branch& branch_plan = plan_.branch(b);
    if (!plan_.trains(branch_plan.weight)) continue;
    WeightSum& sum = weight_sum(b);
    sum = {.how = how_to_sum(branch_plan),
           .gradient = gradient_of(branch_plan.weight, gradient),
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
      const std::size_t count = samples_ * branch_plan.shape.out_count();
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
  const std::size_t count = n * branch_plan.shape.out_count(), weights = sum.gradient.size();
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
  const std::size_t count = branch_plan.shape.out_count(), step = chunk(branch_plan.input);
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
void Executor<Operand>::finish_weight(int b, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  if (!plan_.trains(branch_plan.weight)) return;
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
  tell(ready, branch_plan.weight);
}

template <typename Operand>
void Executor<Operand>::finish_bias(int b, std::span<float> gradient, const SliceReady& ready) {
  const Branch& branch_plan = plan_.branch(b);
  if (!branch_plan.bias || !plan_.trains(*branch_plan.bias)) return;
  const Layer& layer = layer_of(b);
  const auto scales = layer.convolution.weight_scales();
  const std::span<float> bias = gradient_of(*branch_plan.bias, gradient);
  for (std::size_t c = 0; c < bias.size(); ++c) {
    double sum = 0;
    for (std::size_t k = c; k < layer.bias_sums.size(); k += bias.size()) sum += layer.bias_sums[k];
    bias[c] = static_cast<float>(sum / static_cast<double>(scales[c]));
  }
  tell(ready, *branch_plan.bias);
}

template class Executor<std::int8_t>;
template class Executor<float>;

}  // namespace eqt::model::precision
