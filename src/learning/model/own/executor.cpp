// SPDX-License-Identifier: Apache-2.0
// What an executor consists of, its memory and its weights. executor_forward.cpp,
// executor_backward.cpp and weight_gradients.cpp have the passes.
#include "model/own/executor.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace eqt::model::precision {
namespace {

// [values] that are processed between two layers of a few samples: 256 KiB of floats.
constexpr std::size_t kChunkValues = 65536;
constexpr std::size_t kMostSamples = 16;

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
  std::size_t channels = 0, samples = 1;
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
  room.operand_sums.assign(channels, 0);
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
  for (const Layer& layer : layers_)
    bytes += layer.convolution.weight_bytes() + layer.norm->bytes(std::max(trained, evaluated));
  return bytes;
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
  auto& text = room.label;
  const auto end =
      fmt::format_to_n(text.data(), text.size(), "step {}, {}: {}", step_, layer, what);
  return {text.data(), std::min(end.size, text.size())};
}

template <typename Operand>
std::span<const float> Executor<Operand>::values(std::size_t slice) const {
  const TensorSlice& s = plan_.parameters[slice];
  return parameters_.subspan(s.offset, s.count);
}

template <typename Operand>
int Executor<Operand>::zero_point(int node) const {
  const Node& n = plan_.node(node);
  if (n.kind == NodeKind::max_pool) return zero_point(n.input);
  return zero_point_of<Operand>(n.kind != NodeKind::image && plan_.rectifies);
}

template <typename Operand>
std::size_t Executor<Operand>::chunk(int node) const {
  return chunks_[static_cast<std::size_t>(node)];
}

template <typename Operand>
void Executor<Operand>::set_parameters(std::span<const float> parameters, Pass pass, StepId step) {
  EQT_CHECK(parameters.size() == total_count(plan_.parameters), "{} parameters", parameters.size());
  parameters_ = parameters;
  step_ = step;
  if (pass == Pass::evaluation) release();
  const std::size_t parts = threads_.count();
  threads_.run(parts, [&](std::size_t part) {
    for (std::size_t b = part; b < layers_.size(); b += parts)
      if (!layers_[b].is_rounded) set_weights(b, values(plan_.branches[b].weight));
  });
}

template <typename Operand>
void Executor<Operand>::set_weights(std::size_t b, std::span<const float> weights) {
  try {
    layers_[b].convolution.set_weights(weights, clips());
  } catch (const Error& error) {
    fail(error.kind(), "step {}, {}: {}", step_, plan_.branches[b].name, error.what());
  }
}

template <typename Operand>
std::optional<RoundedRows> Executor<Operand>::round(std::size_t slice,
                                                    std::span<const float> values, StepId step) {
  step_ = step;
  const auto branch = std::ranges::find(plan_.branches, slice, &Branch::weight);
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
  if (pass == Pass::evaluation || samples <= kept_samples_) return;
  kept_samples_ = samples;
  kept_errors_ = make_long_array<Operand>(samples * kept_values_);
  kept_scales_.resize(samples * plan_.branches.size());
}

template class Executor<std::int8_t>;
template class Executor<float>;

}  // namespace eqt::model::precision
