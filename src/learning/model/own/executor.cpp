// SPDX-License-Identifier: Apache-2.0
// An executor consists of memory, weights, a forward pass and a backward pass, which is in
// executor_backward.cpp.
#include "model/own/executor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/error.hpp"
#include "int8/quantize.hpp"
#include "model/architecture.hpp"
#include "model/gelu_kernels.hpp"
#include "model/own/passes.hpp"
#include "model/pool_kernels.hpp"
#include "model/whitening.hpp"

namespace eqt::model::precision {
namespace {

// [values] that are processed between two layers of a few samples: 256 KiB of floats.
constexpr std::size_t kChunkValues = 65536;
constexpr std::size_t kMostSamples = 16;

// [values] a part of a larger sample: 32 KiB of floats, of whole blocks of pixels, in which random
// bits are dealt and float32 sums are collected.
constexpr std::size_t kPartValues = 8192, kPartPixels = 64;

// Larger gradients are no longer small beside the work on them, if each lane has one, and have
// enough channels to divide.
constexpr std::size_t kMostLaneWeights = 65536;

}  // namespace

template <typename Operand>
Executor<Operand>::Executor(Plan plan, int8::Kernels kernels, const Int8Options& options,
                            int threads)
    : plan_(std::move(plan)),
      kernels_(kernels),
      options_(options),
      threads_(std::clamp<std::size_t>(static_cast<std::size_t>(threads), 1, kMostLanes)),
      rooms_(threads_.count()),
      weight_sums_(plan_.branches.size()) {
  std::size_t channels = static_cast<std::size_t>(plan_.nodes.front().channels), samples = 1;
  for (const Branch& branch : plan_.branches) {
    layers_.push_back({.convolution = make_convolution<Operand>(branch.shape, kernels),
                       .norm = make_norm<Operand>(plan_, branch),
                       .bias_sums = {}});
    Layer& layer = layers_.back();
    if (branch.bias && layer.norm->sees_bias())
      layer.bias_sums.assign(kMostLanes * branch.channels(), 0);
    channels = std::max(channels, branch.channels());
  }
  for (int i = 0; i < static_cast<int>(plan_.nodes.size()); ++i) {
    const Readers& readers = plan_.readers_of(i);
    std::size_t values = plan_.node(i).count(), sums = 0, kept = 0;
    for (const int b : readers.branches) {
      const Branch& branch = plan_.branch(b);
      values = std::max(values, branch.shape.out_count());
      if (!plan_.trains(branch.weight)) continue;
      if (how_to_sum(branch) == Sums::in_lanes) sums += branch.shape.weight_count();
      if (how_to_sum(branch) == Sums::by_outputs) kept += branch.shape.out_count();
    }
    lane_sums_ = std::max(lane_sums_, sums);
    kept_values_ = std::max(kept_values_, kept);
    const std::size_t n = std::clamp<std::size_t>(kChunkValues / values, 1, kMostSamples);
    chunks_.push_back(n);
    float_values_ = std::max(float_values_, n * values);
    samples = std::max(samples, n);
    for (const int b : readers.branches)
      scratch_bytes_ =
          std::max(scratch_bytes_, layer_of(b).convolution.scratch_bytes(static_cast<int>(n)));
  }
  if (plan_.whitening) {
    float_values_ = std::max(float_values_, plan_.whitening->pictures.values());
    filters_.resize(plan_.tensors[plan_.whitening->weight].count);
    filter_sums_.assign(kMostLanes * static_cast<std::size_t>(plan_.nodes.front().channels), 0);
  }
  for (const SqueezePlan& squeeze : plan_.squeezes)
    squeezes_.emplace_back(squeeze.channels, squeeze.hidden);
  for (Room& room : rooms_) make_room(room, samples, channels);
  sums_of_lanes_ = make_long_array<float>((kMostLanes - 1) * lane_sums_);
}

template <typename Operand>
void Executor<Operand>::make_room(Room& room, std::size_t samples, std::size_t channels) {
  for (auto* const floats : {&room.first, &room.second, &room.third})
    *floats = make_long_array<float>(float_values_);
  room.rounded = make_long_array<Operand>(float_values_);
  room.scratch = make_long_array<std::byte>(scratch_bytes_);
  room.rounded_scales.assign(samples, 1);
  if (options_.weight_gradient == WeightGradient::int16) {
    room.wide = make_long_array<std::int16_t>(float_values_);
    for (auto* const digits : {&room.high, &room.low})
      *digits = make_long_array<std::int8_t>(float_values_);
    for (auto* const scales : {&room.high_scales, &room.low_scales}) scales->assign(samples, 1);
  }
  for (auto* const sums : {&room.operand_sums, &room.operand_products}) sums->assign(channels, 0);
  for (auto* const floats : {&room.factors, &room.shifts}) floats->assign(channels, 0);
  room.double_sums.assign(channels, 0);
}

template <typename Operand>
typename Executor<Operand>::Sums Executor<Operand>::how_to_sum(const Branch& branch) const {
  if (wide_errors()) return Sums::in_order;
  return branch.shape.weight_count() > kMostLaneWeights ? Sums::by_outputs : Sums::in_lanes;
}

template <typename Operand>
std::size_t Executor<Operand>::bytes(std::size_t trained, std::size_t evaluated) const {
  const std::size_t room =
      scratch_bytes_ +
      float_values_ * (3 * sizeof(float) + sizeof(Operand) +
                       (options_.weight_gradient == WeightGradient::int16 ? 4 : 0));
  const WorkspaceBytes training = workspace_bytes<Operand>(plan_, trained, Pass::training),
                       evaluation = workspace_bytes<Operand>(plan_, evaluated, Pass::evaluation);
  std::size_t bytes = std::max(training.block, evaluation.block) + training.scales +
                      evaluation.scales + rooms_.size() * room +
                      (kMostLanes - 1) * lane_sums_ * sizeof(float) +
                      trained * kept_values_ * sizeof(Operand);
  for (std::size_t b = 0; b < layers_.size(); ++b) {
    const Layer& layer = layers_[b];
    bytes += layer.convolution.weight_bytes() + layer.norm->bytes(std::max(trained, evaluated));
    if (plan_.branches[b].pool) bytes += trained * plan_.branches[b].count();
  }
  for (const Squeeze& squeeze : squeezes_) bytes += squeeze.bytes(std::max(trained, evaluated));
  return bytes + filters_.size() * sizeof(float);
}

template <typename Operand>
std::uint64_t Executor<Operand>::clipped() const {
  std::uint64_t sum = 0;
  for (const Room& room : rooms_) sum += room.clipped;
  return sum;
}

template <typename Operand>
std::string_view Executor<Operand>::label(const char* what, const std::string& layer,
                                          Room& room) const {
  return write_label(step_, layer, what, room.label);
}

template <typename Operand>
std::span<const float> Executor<Operand>::values(std::size_t tensor) const {
  return plan_.values(tensor, parameters_, frozen_);
}

template <typename Operand>
int Executor<Operand>::zero_point(int node) const {
  const Node& n = plan_.node(node);
  if (n.has_input()) return zero_point(n.input);
  if (!kIsRounded<Operand>) return 0;
  if (n.kind == NodeKind::image) return plan_.whitening ? int8::kShiftedZeroPoint : 0;
  if (n.rectifies()) return int8::kUnsignedZeroPoint;
  return n.nonlinearity == Nonlinearity::gelu ? int8::kShiftedZeroPoint : 0;
}

template <typename Operand>
std::size_t Executor<Operand>::chunk(int node) const {
  return chunks_[static_cast<std::size_t>(node)];
}

template <typename Operand>
void Executor<Operand>::set_parameters(std::span<const float> parameters,
                                       std::span<const float> frozen, Pass pass, StepId step) {
  EQT_CHECK(parameters.size() == total_count(plan_.parameters) &&
                frozen.size() == total_count(plan_.frozen),
            "{} parameters and {}", parameters.size(), frozen.size());
  parameters_ = parameters;
  frozen_ = frozen;
  step_ = step;
  if (pass == Pass::evaluation) release();
  const std::size_t parts = threads_.count();
  threads_.run(parts, [&](std::size_t part) {
    for (std::size_t b = part; b < layers_.size(); b += parts) {
      const std::size_t weight = plan_.branches[b].weight;
      const bool is_set = layers_[b].is_rounded || (frozen_are_set_ && !plan_.trains(weight));
      if (!is_set) set_weights(b, values(weight));
    }
  });
  frozen_are_set_ = true;
  if (!plan_.whitening) return;
  const std::span<const float> weights = values(plan_.whitening->weight);
  const std::size_t filters = values(plan_.whitening->bias).size(), taps = weights.size() / filters;
  for (std::size_t f = 0; f < filters; ++f)
    for (std::size_t k = 0; k < taps; ++k) filters_[k * filters + f] = weights[f * taps + k];
}

template <typename Operand>
void Executor<Operand>::set_weights(std::size_t b, std::span<const float> weights) {
  precision::set_weights(layers_[b].convolution, weights, clips(), step_, plan_.branches[b].name);
}

template <typename Operand>
std::optional<RoundedRows> Executor<Operand>::round(std::size_t slice,
                                                    std::span<const float> values, StepId step) {
  step_ = step;
  const auto branch = std::ranges::find_if(
      plan_.branches, [&](const Branch& b) { return plan_.trained[b.weight] == slice; });
  if (branch == plan_.branches.end()) return {};
  const auto b = static_cast<std::size_t>(branch - plan_.branches.begin());
  set_weights(b, values);
  layers_[b].is_rounded = true;
  if constexpr (kIsRounded<Operand>) return layers_[b].convolution.weights();
  return {};
}

template <typename Operand>
void Executor<Operand>::release() {
  for (Layer& layer : layers_) layer.is_rounded = false;
}

template <typename Operand>
void Executor<Operand>::prepare(std::size_t samples, Pass pass) {
  Workspace<Operand>& workspace = pass == Pass::training ? training_ : evaluation_;
  if (workspace.samples() < samples) {
    workspace = Workspace<Operand>(plan_, samples, pass);
    if (workspace.bytes() > block_bytes_) {
      block_bytes_ = workspace.bytes();
      block_ = make_long_array<std::byte>(block_bytes_);
    }
  }
  workspace.set_block(block_.get());
  now_ = &workspace;
  computed_again_.assign(plan_.nodes.size(), false);
  pass_ = pass;
  samples_ = samples;
  means_.resize(samples * static_cast<std::size_t>(plan_.nodes.back().channels));
  for (std::size_t b = 0; b < layers_.size(); ++b) {
    layers_[b].factors.clear();
    const Branch& plan = plan_.branches[b];
    if (plan.pool && layers_[b].places.size() < samples * plan.count())
      layers_[b].places.resize(samples * plan.count());
  }
  if (pass == Pass::evaluation || samples <= kept_samples_) return;
  kept_samples_ = samples;
  kept_errors_ = make_long_array<Operand>(samples * kept_values_);
  kept_scales_.resize(samples * plan_.branches.size());
}

template <typename Operand>
std::span<const float> Executor<Operand>::forward(const Pictures& pictures, Pass pass,
                                                  std::span<float> buffers, StepId step,
                                                  const RandomKey* dropout) {
  EQT_CHECK(pictures.values.size() % pictures.shape.values() == 0, "{} values of pictures",
            pictures.values.size());
  step_ = step;
  pictures_ = pictures;
  prepare(pictures.count(), pass);
  if (dropout != nullptr) drop_branches(*dropout);
  take_pictures();
  for (int i = 1; i < static_cast<int>(plan_.nodes.size()); ++i) {
    const NodeKind kind = plan_.node(i).kind;
    if (kind == NodeKind::max_pool) {
      pool(i);
    } else if (kind == NodeKind::scaled) {
      scale_channels(i);
    } else {
      compute_node(i, buffers);
    }
  }
  if (plan_.pooling == Pooling::mean) average();
  return means_;
}

/// Draws which samples go without a branch.
template <typename Operand>
void Executor<Operand>::drop_branches(const RandomKey& key) {
  for (std::size_t b = 0; b < layers_.size(); ++b) {
    const Branch& branch_plan = plan_.branches[b];
    if (branch_plan.drop == 0) continue;
    layers_[b].factors.resize(samples_);
    draw_dropout(key, branch_plan.drop_number, branch_plan.drop, layers_[b].factors);
  }
}

/// Puts a picture of the batch, with its frame, into the room's first values.
template <typename Operand>
std::span<float> Executor<Operand>::picture(std::size_t n, Room& room) const {
  const std::span<float> framed(room.first.get(), pictures_.framed_shape().values());
  pictures_.write_framed(n, framed);
  return framed;
}

/// Puts what the filters find in a picture into the room's second values.
template <typename Operand>
std::span<float> Executor<Operand>::filtered(std::size_t n, Room& room) const {
  const std::span<float> out(room.second.get(), plan_.nodes[0].count());
  filter_patches(picture(n, room), plan_.whitening->pictures, kWhitenedSide, filters_,
                 values(plan_.whitening->bias), out);
  return out;
}

template <typename Operand>
void Executor<Operand>::take_pictures() {
  const auto inputs = [&](std::size_t n, Room& room) {
    if (!plan_.whitening) return picture(n, room);
    const std::span<float> x = filtered(n, room);
    gelu(x, x);
    return x;
  };
  constexpr std::string_view kWhat = "input: pictures";
  const float range = shared_range_of(clips(), kWhat, inputs);
  for_each_lane([&](const Lane& lane) {
    for (std::size_t n = lane.first; n < lane.end; ++n)
      node(0).scales[n] = round_activation(inputs(n, lane.room), zero_point(0), range, kWhat,
                                           node(0).sample(n), lane.room);
  });
}

template <typename Operand>
void Executor<Operand>::SharedRange::add(float magnitude) {
  largest_ = std::max(largest_, magnitude);
  sum_ += magnitude;
  ++count_;
}

template <typename Operand>
void Executor<Operand>::SharedRange::add(const SharedRange& other) {
  largest_ = std::max(largest_, other.largest_);
  sum_ += other.sum_;
  count_ += other.count_;
}

template <typename Operand>
float Executor<Operand>::SharedRange::value(bool clips) const {
  return clips && count_ > 0 ? static_cast<float>(sum_ / static_cast<double>(count_)) : largest_;
}

/// Evaluation does not, so that a sample's result does not depend on the others.
template <typename Operand>
bool Executor<Operand>::shares_ranges() const {
  return pass_ == Pass::training && options_.ranges != Int8Ranges::sample;
}

/// @param range  0: that of x. @return the scale
template <typename Operand>
float Executor<Operand>::round_activation(std::span<const float> x, int zero_point, float range,
                                          std::string_view what, std::span<Operand> q, Room& room) {
  const float all = range > 0 ? range : int8::largest_magnitude(x, what);
  if (range > 0 && clips())
    room.clipped += static_cast<std::uint64_t>(
        std::ranges::count_if(x, [&](float value) { return std::abs(value) > range; }));
  return precision::round_activation(zero_point, all, x, q);
}

template <typename Operand>
bool Executor<Operand>::is_large(std::size_t count) {
  return count > kChunkValues;
}

template <typename Operand>
std::size_t Executor<Operand>::part_values(std::size_t channels) {
  const std::size_t block = kPartPixels * channels;
  return std::max<std::size_t>(1, kPartValues / block) * block;
}

/// Whether a node's floats are computed twice, once for their range and once to be rounded, so that
/// they need not all be kept between.
template <typename Operand>
bool Executor<Operand>::is_in_parts(int i) const {
  const Node& to = plan_.node(i);
  const bool is_last = static_cast<std::size_t>(i) + 1 == plan_.nodes.size();
  return is_large(to.count()) && to.residual != Residual::padding &&
         to.nonlinearity != Nonlinearity::gelu && !(is_last && plan_.pooling == Pooling::maximum);
}

/// The largest magnitude of a sample's activation, where it is known without its floats and finite;
/// otherwise 0.
template <typename Operand>
float Executor<Operand>::known_range(int i, std::size_t n) {
  const Node& to = plan_.node(i);
  const bool is_of_norm = to.residual == Residual::none &&
                          (to.rectifies() || to.nonlinearity == Nonlinearity::none) &&
                          factor_of(to.main, n) == 1;
  if (!kIsRounded<Operand> || !is_of_norm) return 0;
  const Output output = to.rectifies() ? output_of(to) : Output::plain;
  const std::optional<float> found =
      layer_of(to.main).norm->largest(rounded(branch(to.main), n), n, output);
  return found && std::isfinite(*found) ? *found : 0;
}

/// @param range  0: the sample's own
template <typename Operand>
void Executor<Operand>::round_node(int i, std::size_t n, float range, std::string_view what,
                                   Room& room) {
  const Node& of_node = plan_.node(i);
  const auto channels = static_cast<std::size_t>(of_node.channels);
  const Samples to = node(i);
  float all = range;
  if (kIsRounded<Operand> && all == 0)
    for_each_part(of_node.count(), channels, [&](const Part& part) {
      all = std::max(all, int8::largest_magnitude(activation(i, n, room, part), what));
    });
  for_each_part(of_node.count(), channels, [&](const Part& part) {
    to.scales[n] = round_activation(activation(i, n, room, part), zero_point(i), all, what,
                                    part.of(to.sample(n)), room);
  });
}

template <typename Operand>
void Executor<Operand>::compute_node(int i, std::span<float> buffers) {
  const Node& to = plan_.node(i);
  convolve(to.main, buffers);
  if (to.residual == Residual::branch) convolve(to.second, buffers);
  const std::string& name = plan_.branch(to.main).name;
  const bool is_last = static_cast<std::size_t>(i) + 1 == plan_.nodes.size();
  const float range =
      shared_range_of(clips(), label("activations", name, rooms_.front()),
                      [&](std::size_t n, Room& room) { return activation(i, n, room); });
  for_each_lane([&](const Lane& lane) {
    const std::string_view what = label("activations", name, lane.room);
    for (std::size_t n = lane.first; n < lane.end; ++n) {
      const float own = range > 0 ? range : known_range(i, n);
      if (is_in_parts(i)) {
        round_node(i, n, own, what, lane.room);
        continue;
      }
      const Floats x = activation(i, n, lane.room);
      node(i).scales[n] =
          round_activation(x, zero_point(i), own, what, node(i).sample(n), lane.room);
      if (is_last && plan_.pooling == Pooling::maximum) take_maxima(n, x);
    }
  });
}

/// The floats of a sample at a node, in the room's first values; the same in both passes.
template <typename Operand>
std::span<float> Executor<Operand>::activation(int i, std::size_t n, Room& room, const Part& part) {
  const Node& to = plan_.node(i);
  const std::span<float> sample(room.first.get(), part.count);
  if (to.rectifies() && to.residual == Residual::none) {
    layer_of(to.main).norm->apply(rounded(branch(to.main), n, part), n, output_of(to), sample);
    return sample;
  }
  add_up(i, n, part, sample);
  if (to.rectifies()) rectify(sample);
  if (to.nonlinearity == Nonlinearity::gelu) gelu(sample, sample);
  if (to.nonlinearity == Nonlinearity::hard_swish) hard_swish(sample);
  return sample;
}

template <typename Operand>
NormParameters Executor<Operand>::norm_parameters(const Branch& branch) const {
  if (!branch.norm) return {};
  return {.weight = values(*branch.norm),
          .bias = values(*branch.norm + 1),
          .v = plan_.norm_activates ? values(*branch.norm + 2) : Floats()};
}

template <typename Operand>
void Executor<Operand>::start_norm(int b, std::span<float> buffers) {
  const Branch& branch_plan = plan_.branch(b);
  layer_of(b).norm->start(samples_, pass_, norm_parameters(branch_plan),
                          plan_.running_values(branch_plan, buffers));
}

/// A branch: its convolution, and what its normalization measures.
template <typename Operand>
void Executor<Operand>::convolve(int b, std::span<float> buffers) {
  const Branch& branch_plan = plan_.branch(b);
  Layer& layer = layer_of(b);
  const Samples in = node(branch_plan.input), out = branch(b);
  start_norm(b, buffers);
  const auto outputs = [&](std::size_t first, std::size_t n, Room& room) -> Floats {
    const Samples some = in.part(first, n);
    const std::span<float> result(room.first.get(), n * branch_plan.shape.out_count());
    layer.convolution.forward(some.values, zero_point(branch_plan.input), some.scales, result,
                              {room.scratch.get(), scratch_bytes_});
    if (branch_plan.bias) add_bias(values(*branch_plan.bias), result);
    return branch_plan.pool ? pooled(b, first, n, room) : result;
  };
  const std::size_t step = chunk(branch_plan.input);
  constexpr const char* kWhat = "outputs of the convolution";
  const float range = shared_range(clips(), [&](const Lane& lane, SharedRange& shared) {
    const std::string_view what = label(kWhat, branch_plan.name, lane.room);
    for_each_chunk(lane, step, [&](std::size_t first, std::size_t n) {
      const auto result = outputs(first, n, lane.room);
      for (std::size_t k = 0; k < n; ++k)
        shared.add(int8::largest_magnitude(result.subspan(k * out.count, out.count), what));
    });
  });
  for_each_lane([&](const Lane& lane) {
    const std::string_view what = label(kWhat, branch_plan.name, lane.room);
    for_each_chunk(lane, step, [&](std::size_t first, std::size_t n) {
      const auto result = outputs(first, n, lane.room);
      for (std::size_t k = 0; k < n; ++k) {
        const auto sample = result.subspan(k * out.count, out.count);
        layer.norm->measure(sample, first + k);
        out.scales[first + k] =
            round_activation(sample, 0, range, what, out.sample(first + k), lane.room);
      }
    });
  });
  layer.norm->finish();
}

/// Puts the maxima of a convolution's outputs, which are the room's first values, into its second
/// ones.
template <typename Operand>
Floats Executor<Operand>::pooled(int b, std::size_t first, std::size_t n, Room& room) {
  const Branch& branch_plan = plan_.branch(b);
  const std::size_t channels = branch_plan.channels(), count = branch_plan.count();
  const std::size_t row = static_cast<std::size_t>(branch_plan.shape.out_width()) * channels;
  const std::size_t out_row = static_cast<std::size_t>(branch_plan.width()) * channels;
  const std::span<std::uint8_t> places(layer_of(b).places);
  for (std::size_t k = 0; k < n; ++k) {
    const Floats x(room.first.get() + k * branch_plan.shape.out_count(),
                   branch_plan.shape.out_count());
    const std::span<float> out(room.second.get() + k * count, count);
    for (std::size_t at = 0, from = 0; at < count; at += out_row, from += 2 * row)
      max_pool_rows(x.subspan(from, row), x.subspan(from + row, row), channels,
                    out.subspan(at, out_row), places.subspan((first + k) * count + at, out_row));
  }
  return {room.second.get(), n * count};
}

/// The sum of a node's branches and residual: what ReLU is given, the same floats in both passes.
/// @pre shortcuts that are padded: the part is the whole
template <typename Operand>
void Executor<Operand>::add_up(int i, std::size_t n, const Part& part, std::span<float> out) {
  const Node& to = plan_.node(i);
  const auto add_branch = [&](int b, Output output) {
    layer_of(b).norm->apply(rounded(branch(b), n, part), n, output, out);
  };
  add_branch(to.main, Output::plain);
  if (const float factor = factor_of(to.main, n); factor != 1)
    for (float& value : out) value *= factor;
  if (to.residual == Residual::branch) add_branch(to.second, Output::added);
  if (to.residual == Residual::identity) {
    const Samples x = node(to.second);
    add_scaled(part.of(x.sample(n)), zero_point(to.second), x.scales[n], out);
  }
  if (to.residual == Residual::padding) {
    const Samples x = node(to.second);
    const Node& from = plan_.node(to.second);
    for_each_kept_pixel(from, to, [&](std::size_t source, std::size_t target) {
      add_scaled(x.sample(n).subspan(source, static_cast<std::size_t>(from.channels)),
                 zero_point(to.second), x.scales[n],
                 out.subspan(target, static_cast<std::size_t>(from.channels)));
    });
  }
}

template <typename Operand>
void Executor<Operand>::pool(int i) {
  const Node& to = plan_.node(i);
  const Node& from = plan_.node(to.input);
  const Samples in = node(to.input), out = node(i);
  const auto channels = static_cast<std::size_t>(to.channels);
  const auto sample = [&](std::size_t n) {
    out.scales[n] = in.scales[n];
    const auto x = in.sample(n), y = out.sample(n);
    std::ranges::fill(y, std::numeric_limits<Operand>::lowest());
    for_each_window(from, to, [&](std::size_t target, std::size_t source) {
      for (std::size_t c = 0; c < channels; ++c)
        y[target + c] = std::max(y[target + c], x[source + c]);
    });
  };
  for_each_lane([&](const Lane& lane) {
    for (std::size_t n = lane.first; n < lane.end; ++n) sample(n);
  });
}

/// Multiplies the channels of a node by factors of the sample.
template <typename Operand>
void Executor<Operand>::scale_channels(int i) {
  const Node& to = plan_.node(i);
  Squeeze& squeeze = squeezes_[to.squeeze];
  squeeze.start(samples_);
  const auto layers = squeeze_layers<const float>(to, [&](std::size_t t) { return values(t); });
  for_each_lane([&](const Lane& lane) {
    for (std::size_t n = lane.first; n < lane.end; ++n) {
      average_sample(to.input, n, lane.room, squeeze.means(n));
      squeeze.excite(n, layers);
    }
  });
  const std::string& name = plan_.branch(plan_.node(to.input).main).name;
  constexpr const char* kWhat = "scaled activations";
  const float range =
      shared_range_of(clips(), label(kWhat, name, rooms_.front()),
                      [&](std::size_t n, Room& room) { return scaled(i, n, room); });
  for_each_lane([&](const Lane& lane) {
    const std::string_view what = label(kWhat, name, lane.room);
    for (std::size_t n = lane.first; n < lane.end; ++n)
      node(i).scales[n] = round_activation(scaled(i, n, lane.room), zero_point(i), range, what,
                                           node(i).sample(n), lane.room);
  });
}

/// The floats of a sample whose channels are scaled, in the room's first values.
template <typename Operand>
std::span<float> Executor<Operand>::scaled(int i, std::size_t n, Room& room) {
  const Node& to = plan_.node(i);
  const Samples x = node(to.input);
  const Floats by_channel = squeezes_[to.squeeze].factors(n);
  const std::span factors = std::span(room.factors).first(by_channel.size());
  const std::span shifts = std::span(room.shifts).first(by_channel.size());
  for (std::size_t c = 0; c < by_channel.size(); ++c) {
    factors[c] = x.scales[n] * by_channel[c];
    shifts[c] = static_cast<float>(-zero_point(i)) * factors[c];
  }
  const std::span<float> out(room.first.get(), to.count());
  affine(x.sample(n), factors, shifts, Output::plain, out);
  return out;
}

template <typename Operand>
void Executor<Operand>::average() {
  const auto channels = static_cast<std::size_t>(plan_.nodes.back().channels);
  for (std::size_t n = 0; n < samples_; ++n)
    average_sample(static_cast<int>(plan_.nodes.size()) - 1, n, rooms_.front(),
                   std::span(means_).subspan(n * channels, channels));
}

/// The mean of each channel of a node's sample.
template <typename Operand>
void Executor<Operand>::average_sample(int i, std::size_t n, Room& room, std::span<float> means) {
  const Samples x = node(i);
  const std::size_t channels = means.size();
  const auto pixels = static_cast<SumOf<Operand>>(plan_.node(i).pixels());
  const std::span<SumOf<Operand>> sums = std::span(room.operand_sums).first(channels);
  const auto sample = x.sample(n);
  if constexpr (std::is_same_v<Operand, float>) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t p = 0; p < sample.size(); p += channels)
      for (std::size_t c = 0; c < channels; ++c) sums[c] += sample[p + c];
  } else {
    int8::channel_sums(sample, sums);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const auto sum =
        static_cast<double>(sums[c] - pixels * static_cast<SumOf<Operand>>(zero_point(i)));
    means[c] =
        static_cast<float>(sum * static_cast<double>(x.scales[n]) / static_cast<double>(pixels));
  }
}

/// Takes the maxima of the last node's floats, before they are rounded once more.
template <typename Operand>
void Executor<Operand>::take_maxima(std::size_t n, Floats x) {
  const auto channels = static_cast<std::size_t>(plan_.nodes.back().channels);
  const std::span<float> most = std::span(means_).subspan(n * channels, channels);
  std::copy_n(x.begin(), channels, most.begin());
  for (std::size_t p = channels; p < x.size(); p += channels)
    for (std::size_t c = 0; c < channels; ++c) most[c] = std::max(most[c], x[p + c]);
}

template class Executor<std::int8_t>;
template class Executor<float>;

}  // namespace eqt::model::precision
