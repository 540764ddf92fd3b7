// SPDX-License-Identifier: Apache-2.0
#include "model/own/flat_replica.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "metrics/output_file.hpp"
#include "weights/safetensors.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model::precision {
namespace {

/// The key of rounding's random bits; dropout and mixup have streams of the same key.
RandomKey rounding_key(const RandomKey& batch) {
  constexpr std::uint64_t kAside = 0x726F756E646564;
  RandomKey key = batch;
  key.run_seed = mix64(batch.run_seed ^ kAside);
  return key;
}

/// Strides of a tensor in a flat buffer: convolutions' are channels-last.
std::vector<std::int64_t> strides_of(const TensorSlice& slice) {
  const auto& shape = slice.shape;
  if (shape.size() == 4) return {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return weights::row_major_strides(shape);
}

}  // namespace

FlatReplica::FlatReplica(const ModelOptions& options, TensorPlan plan, TensorValues start,
                         std::size_t last_weight)
    : seed_(options.seed),
      outputs_(options.outputs),
      mixup_(options.task.mixup),
      rank_(options.rank),
      shape_(images_of(options)),
      frame_(frame_of(*options.model, shape_)),
      plan_(std::move(plan)),
      values_(std::move(start)),
      gradient_(total_count(plan_.parameters)),
      last_weight_(last_weight),
      loss_(options.task, options.outputs),
      counters_(plan_.counters) {}

Pictures FlatReplica::pictures_of(const data::Batch& batch, double share) const {
  EQT_CHECK(batch.inputs.size() == 1 && batch.size() > 0, "{} inputs of {} samples",
            batch.inputs.size(), batch.size());
  const std::span<const float> values = batch.inputs.front().get<float>();
  EQT_CHECK(values.size() == batch.size() * shape_.values(), "{} values of pictures",
            values.size());
  return {values, shape_, frame_, share};
}

double FlatReplica::forward_backward(const data::Batch& batch, const SliceReady& on_ready) {
  const RandomKey key =
      make_key(seed_, batches_, static_cast<std::uint32_t>(rank_), RandomPurpose::dropout);
  const double share = mixup_ > 0 ? draw_mixup_share(mixup_, key) : 1;
  const SliceReady ready = [&](std::size_t slice) {
    if (on_ready) on_ready(slice);
  };
  const std::span<const float> outputs = forward(pictures_of(batch, share), &key);
  count_batch(counters_);
  errors_.resize(outputs.size());
  const double loss = loss_.loss(outputs, batch.targets, share, errors_);
  backward(errors_, rounding_key(key), ready);
  ++batches_;
  return loss;
}

Evaluation FlatReplica::evaluate(const data::Batch& batch) {
  return loss_.evaluate(forward(pictures_of(batch, 1), nullptr), batch.targets);
}

void FlatReplica::predict(const data::Batch& batch, data::Array& out) {
  const std::span<const float> outputs = forward(pictures_of(batch, 1), nullptr);
  const data::ArraySpec spec = {.name = "output", .shape = {outputs_}};
  std::ranges::copy(outputs, out.prepare<float>(spec, batch.size()).begin());
}

void FlatReplica::save_weights(const std::string& path) const {
  metrics::write_atomically(
      path, packed([](const auto& tensors) { return weights::pack_state_dict(tensors); }));
}

std::string FlatReplica::safetensors(const Metadata& metadata) const {
  return packed([&](const auto& tensors) { return weights::pack_safetensors(tensors, metadata); });
}

void FlatReplica::load_weights(const std::string& path) { load(path, {}); }

weights::LoadedNames FlatReplica::load_pretrained(const std::string& path, bool new_head) {
  const std::string& last = plan_.tensors[last_weight_].name;
  weights::FileNames names = file_names();
  names.outputs = outputs_;
  names.last_layer = last.substr(0, last.rfind('.') + 1);
  names.new_head = new_head;
  return load(path, names);
}

void FlatReplica::visit_state(StateVisitor& visitor, Across models) {
  // Each rank has statistics of its own batches, even if models are equal.
  const Across statistics = models == Across::same ? Across::mean : models;
  visitor.values("parameters", values_.parameters.span(), models);
  visitor.values("buffers", values_.buffers.span(), statistics);
  if (!values_.frozen.span().empty()) visitor.values("frozen", frozen(), Across::same);
  visitor.number("batches", batches_, Across::own);
  visitor.numbers("counters", counters_, Across::own);
}

template <typename Values, typename Counter>
void FlatReplica::for_each_tensor(const Values& visit, const Counter& visit_counter) const {
  for (std::size_t i = 0; i < plan_.tensors.size(); ++i) visit(plan_.tensors[i], values(i));
  constexpr std::string_view kLast = "running_var", kCounter = "num_batches_tracked";
  std::size_t norm = 0;
  for (const TensorSlice& slice : plan_.buffers) {
    visit(slice, values_.buffers.span().subspan(slice.offset, slice.count));
    if (!slice.name.ends_with(kLast)) continue;
    const std::string prefix = slice.name.substr(0, slice.name.size() - kLast.size());
    visit_counter(prefix + std::string(kCounter), norm++);
  }
}

template <typename Pack>
std::string FlatReplica::packed(const Pack& pack) const {
  std::vector<std::string> names;
  names.reserve(counters_.size());
  std::vector<std::int64_t> counters(counters_.begin(), counters_.end());
  std::vector<weights::Tensor> tensors;
  for_each_tensor(
      [&](const TensorSlice& slice, std::span<const float> floats) {
        tensors.push_back({.name = slice.name,
                           .type = weights::ElementType::float32,
                           .sizes = slice.shape,
                           .strides = strides_of(slice),
                           .storage = std::as_bytes(floats)});
      },
      [&](std::string name, std::size_t i) {
        tensors.push_back({.name = names.emplace_back(std::move(name)),
                           .type = weights::ElementType::int64,
                           .sizes = {},
                           .strides = {},
                           .storage = std::as_bytes(std::span(&counters[i], 1))});
      });
  return pack(tensors);
}

weights::LoadedNames FlatReplica::load(const std::string& path, const weights::FileNames& names) {
  expect_other_frozen();
  std::vector<std::int64_t> counters(counters_.begin(), counters_.end());
  std::vector<weights::Target> targets;
  for_each_tensor(
      [&](const TensorSlice& slice, std::span<float> floats) {
        targets.push_back({.name = slice.name,
                           .type = weights::ElementType::float32,
                           .sizes = slice.shape,
                           .strides = strides_of(slice),
                           .storage = std::as_writable_bytes(floats)});
      },
      [&](std::string name, std::size_t i) {
        targets.push_back({.name = std::move(name),
                           .type = weights::ElementType::int64,
                           .sizes = {},
                           .strides = {},
                           .storage = std::as_writable_bytes(std::span(&counters[i], 1))});
      });
  weights::LoadedNames loaded = weights::load_state_dict(path, targets, names);
  std::ranges::copy(counters, counters_.begin());
  return loaded;
}

}  // namespace eqt::model::precision
