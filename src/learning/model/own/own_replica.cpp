// SPDX-License-Identifier: Apache-2.0
#include "model/own/own_replica.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "metrics/output_file.hpp"
#include "model/architecture.hpp"
#include "model/array_loss.hpp"
#include "model/model_options.hpp"
#include "model/own/dense.hpp"
#include "model/own/executor.hpp"
#include "model/own/passes.hpp"
#include "model/own/plan.hpp"
#include "model/process_settings.hpp"
#include "weights/safetensors.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {
namespace precision {
namespace {

// Samples of a pass in evaluation, whose results do not depend on each other.
constexpr std::size_t kEvaluated = 16;

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

template <typename Operand>
class OwnReplica final : public Replica, public WeightRounding {
 public:
  OwnReplica(const ModelOptions& options, int8::Kernels kernels, int threads)
      : options_(options),
        rank_(options.rank),
        pictures_(images_of(options)),
        frame_(frame_of(*options.model, pictures_)),
        executor_(make_plan(options), kernels, options.int8, threads),
        loss_(options.task, options.outputs),
        parameters_(total_count(plan().parameters)),
        gradient_(total_count(plan().parameters)),
        frozen_(total_count(plan().frozen)),
        buffers_(total_count(plan().buffers)),
        counters_(plan().counters) {
    draw_initial_values(plan(), options.seed, parameters_.span(), frozen_.span(), buffers_.span());
  }

  const Layout& layout() const override { return plan().parameters; }
  std::span<float> parameters() override { return parameters_.span(); }
  std::span<float> gradient() override { return gradient_.span(); }
  FlatBuffer* gradient_memory() override { return &gradient_; }
  std::span<float> buffers() override { return buffers_.span(); }
  void keep_constants(std::span<float> mean) override {
    for (const Branch& branch : plan().branches)
      if (branch.keeps_statistics)
        std::ranges::copy(plan().running_values(branch, buffers_.span()),
                          plan().running_values(branch, mean).begin());
  }
  std::span<float> frozen() override {
    executor_.expect_other_frozen();
    return frozen_.span();
  }

  double forward_backward(const data::Batch& batch, const SliceReady& on_ready) override;
  Evaluation evaluate(const data::Batch& batch) override {
    run(batch);
    return loss_.evaluate(outputs_, batch.targets);
  }
  void predict(const data::Batch& batch, data::Array& out) override {
    run(batch);
    const data::ArraySpec spec = {.name = "output", .shape = {options_.outputs}};
    std::ranges::copy(outputs_, out.prepare<float>(spec, batch.size()).begin());
  }
  std::optional<Int8Use> int8_use(std::size_t batch_size) const override {
    if constexpr (!kIsRounded<Operand>) return {};
    return Int8Use{
        .kernels = name_of(executor_.kernels()),
        .arena_bytes = workspace_bytes<Operand>(plan(), batch_size, Pass::training).block,
        .saved_bytes = saved_bytes<Operand>(plan(), batch_size),
        .clipped_values = executor_.clipped()};
  }
  WeightRounding* weight_rounding() override {
    if constexpr (kIsRounded<Operand>) return this;
    return nullptr;
  }
  std::optional<RoundedRows> round(std::size_t slice, std::span<const float> values) override {
    return executor_.round(slice, values, batches_);
  }
  void release() override { executor_.release(); }
  void set_rank(Rank rank) override { rank_ = rank; }
  void visit_state(StateVisitor& visitor, Across models) override;
  void save_weights(const std::string& path) const override {
    metrics::write_atomically(
        path, packed([](const auto& tensors) { return weights::pack_state_dict(tensors); }));
  }
  std::string safetensors(const Metadata& metadata) const override {
    return packed(
        [&](const auto& tensors) { return weights::pack_safetensors(tensors, metadata); });
  }
  void load_weights(const std::string& path) override { load(path, {}); }
  std::vector<std::string> load_pretrained(const std::string& path, bool new_head) override {
    const std::string& last = plan().tensors[plan().last.weight].name;
    return load(path, {.outputs = options_.outputs,
                       .last_layer = last.substr(0, last.rfind('.') + 1),
                       .new_head = new_head});
  }

 private:
  const Plan& plan() const { return executor_.plan(); }
  std::span<float> values(std::size_t tensor) const {
    return plan().values(tensor, parameters_.span(), frozen_.span());
  }

  std::span<const float> pictures_of(const data::Batch& batch) const;
  void run(const data::Batch& batch);
  void classify(std::span<const float> means, std::size_t n, const RandomKey* key);
  void classify_backward(const SliceReady& ready);
  void drop(const Dense& dense, const RandomKey* key, std::span<float> inputs);
  void through_dropout(const Dense& dense, std::span<float> errors) const;

  /// Calls visit(name, sizes, strides, first value) for each tensor of the state, and
  /// visit_counter(name, counter).
  template <typename Values, typename Counter>
  void for_each_tensor(const Values& visit, const Counter& visit_counter) const;
  std::vector<std::string> load(const std::string& path, const weights::FileNames& names);
  /// Returns what pack() makes of the tensors.
  template <typename Pack>
  std::string packed(const Pack& pack) const;

  ModelOptions options_;
  Rank rank_;
  data::ImageShape pictures_;
  Frame frame_;
  Executor<Operand> executor_;
  ArrayLoss loss_;
  FlatBuffer parameters_, gradient_, frozen_, buffers_;
  std::vector<std::uint64_t> counters_;  // of batches, one for each norm
  StepId batches_ = 0;                   // trained on so far; names the next one's random numbers

  // These belong to the classifier, (n, ...) each.
  std::vector<float> means_, hidden_before_, hidden_, outputs_;
  std::vector<float> mask_;  // of the layer that has dropout
  std::vector<float> mean_errors_, hidden_errors_, output_errors_;
};

template <typename Operand>
std::span<const float> OwnReplica<Operand>::pictures_of(const data::Batch& batch) const {
  EQT_CHECK(batch.inputs.size() == 1 && batch.size() > 0, "{} inputs of {} samples",
            batch.inputs.size(), batch.size());
  return batch.inputs.front().get<float>();
}

template <typename Operand>
double OwnReplica<Operand>::forward_backward(const data::Batch& batch, const SliceReady& on_ready) {
  const RandomKey key =
      make_key(options_.seed, batches_, static_cast<std::uint32_t>(rank_), RandomPurpose::dropout);
  const double share = options_.task.mixup > 0 ? draw_mixup_share(options_.task.mixup, key) : 1;
  const SliceReady ready = [&](std::size_t slice) {
    if (on_ready) on_ready(slice);
  };
  executor_.set_parameters(parameters_.span(), frozen_.span(), Pass::training, batches_);
  const auto means = executor_.forward({pictures_of(batch), pictures_, frame_, share},
                                       Pass::training, buffers_.span(), batches_, &key);
  plan().count_batch(counters_);
  classify(means, batch.size(), &key);
  output_errors_.resize(outputs_.size());
  const double loss = loss_.loss(outputs_, batch.targets, share, output_errors_);
  classify_backward(ready);
  executor_.backward(mean_errors_, rounding_key(key), gradient_.span(), ready);
  ++batches_;
  return loss;
}

/// Fills outputs_. @param key  of dropout; null: there is none
template <typename Operand>
void OwnReplica<Operand>::classify(std::span<const float> means, std::size_t n,
                                   const RandomKey* key) {
  means_.assign(means.begin(), means.end());
  std::vector<float>* in = &means_;
  if (const auto& hidden = plan().hidden) {
    drop(*hidden, key, means_);
    hidden_.resize(n * hidden->out);
    dense_forward(means_, values(hidden->weight), values(hidden->bias), hidden_);
    hidden_before_ = hidden_;
    if (plan().hidden_nonlinearity == Nonlinearity::hard_swish)
      hard_swish(hidden_);
    else
      rectify(hidden_);
    in = &hidden_;
  }
  drop(plan().last, key, *in);
  outputs_.resize(n * plan().last.out);
  dense_forward(*in, values(plan().last.weight), values(plan().last.bias), outputs_);
  for (float& v : outputs_) v *= plan().output_scale;
}

/// Drops inputs of a layer, if it asks for that.
template <typename Operand>
void OwnReplica<Operand>::drop(const Dense& dense, const RandomKey* key, std::span<float> inputs) {
  if (key == nullptr || dense.dropout == 0) return;
  mask_.resize(inputs.size());
  draw_dropout(*key, 0, dense.dropout, mask_);
  through_dropout(dense, inputs);
}

template <typename Operand>
void OwnReplica<Operand>::through_dropout(const Dense& dense, std::span<float> errors) const {
  if (dense.dropout == 0) return;
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] *= mask_[i];
}

/// Fills mean_errors_ and the classifier's gradient.
template <typename Operand>
void OwnReplica<Operand>::classify_backward(const SliceReady& ready) {
  const auto backward = [&](const Dense& dense, std::span<const float> g, std::span<const float> x,
                            std::vector<float>& dx) {
    dx.resize(x.size());
    dense_backward(g, x, values(dense.weight), dense.out, dx,
                   executor_.gradient_of(dense.weight, gradient_.span()),
                   executor_.gradient_of(dense.bias, gradient_.span()));
    for (const std::size_t tensor : {dense.bias, dense.weight})
      if (const auto slice = plan().trained[tensor]) ready(*slice);
    through_dropout(dense, dx);
  };
  for (float& v : output_errors_) v *= plan().output_scale;
  if (!plan().hidden) {
    backward(plan().last, output_errors_, means_, mean_errors_);
    return;
  }
  backward(plan().last, output_errors_, hidden_, hidden_errors_);
  if (plan().hidden_nonlinearity == Nonlinearity::hard_swish)
    hard_swish_gradient(hidden_before_, hidden_errors_);
  else
    gate(hidden_before_, std::span(hidden_errors_));
  backward(*plan().hidden, hidden_errors_, means_, mean_errors_);
}

/// Fills outputs_ in evaluation mode, a few samples at a time.
template <typename Operand>
void OwnReplica<Operand>::run(const data::Batch& batch) {
  const auto pictures = pictures_of(batch);
  const std::size_t n = batch.size(), values_of_one = pictures_.values();
  executor_.set_parameters(parameters_.span(), frozen_.span(), Pass::evaluation, batches_);
  mean_errors_.clear();  // used for the means of all samples
  for (std::size_t first = 0; first < n; first += kEvaluated) {
    const std::size_t some = std::min(kEvaluated, n - first);
    const auto means = executor_.forward(
        {pictures.subspan(first * values_of_one, some * values_of_one), pictures_, frame_},
        Pass::evaluation, buffers_.span(), batches_);
    mean_errors_.insert(mean_errors_.end(), means.begin(), means.end());
  }
  classify(mean_errors_, n, nullptr);
}

template <typename Operand>
void OwnReplica<Operand>::visit_state(StateVisitor& visitor, Across models) {
  // Each rank has statistics of its own batches, even if models are equal.
  const Across statistics = models == Across::same ? Across::mean : models;
  visitor.values("parameters", parameters_.span(), models);
  visitor.values("buffers", buffers_.span(), statistics);
  if (!frozen_.span().empty()) visitor.values("frozen", frozen(), Across::same);
  visitor.number("batches", batches_, Across::own);
  visitor.numbers("counters", counters_, Across::own);
}

template <typename Operand>
template <typename Values, typename Counter>
void OwnReplica<Operand>::for_each_tensor(const Values& visit, const Counter& visit_counter) const {
  for (std::size_t i = 0; i < plan().tensors.size(); ++i) visit(plan().tensors[i], values(i));
  constexpr std::string_view kLast = "running_var", kCounter = "num_batches_tracked";
  std::size_t norm = 0;
  for (const TensorSlice& slice : plan().buffers) {
    visit(slice, buffers_.span().subspan(slice.offset, slice.count));
    if (!slice.name.ends_with(kLast)) continue;
    const std::string prefix = slice.name.substr(0, slice.name.size() - kLast.size());
    visit_counter(prefix + std::string(kCounter), norm++);
  }
}

template <typename Operand>
template <typename Pack>
std::string OwnReplica<Operand>::packed(const Pack& pack) const {
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

template <typename Operand>
std::vector<std::string> OwnReplica<Operand>::load(const std::string& path,
                                                   const weights::FileNames& names) {
  executor_.expect_other_frozen();
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
  std::vector<std::string> kept = weights::load_state_dict(path, targets, names);
  std::ranges::copy(counters, counters_.begin());
  return kept;
}

}  // namespace
}  // namespace precision

std::unique_ptr<Replica> make_int8_replica(const ModelOptions& options, int8::Kernels kernels,
                                           int threads) {
  check_options(options);
  return std::make_unique<precision::OwnReplica<std::int8_t>>(options, kernels, threads);
}

std::unique_ptr<Replica> make_float32_replica(const ModelOptions& options, int threads) {
  check_options(options);
  return std::make_unique<precision::OwnReplica<float>>(options, int8::Kernels::scalar, threads);
}

namespace {

template <typename Operand>
NetworkMemory memory_of(const ModelOptions& options, std::size_t batch_size) {
  check_options(options);
  const precision::Executor<Operand> executor(precision::make_plan(options), int8::fastest_here(),
                                              options.int8, own_threads());
  const std::size_t bytes = executor.bytes(batch_size, precision::kEvaluated);
  return {.layout = executor.plan().parameters,
          .frozen_values = total_count(executor.plan().frozen),
          .buffer_values = total_count(executor.plan().buffers),
          .gradient_bytes = bytes,
          .evaluate_bytes = bytes};
}

}  // namespace

NetworkMemory int8_memory(const ModelOptions& options, std::size_t batch_size) {
  return memory_of<std::int8_t>(options, batch_size);
}

NetworkMemory float32_memory(const ModelOptions& options, std::size_t batch_size) {
  return memory_of<float>(options, batch_size);
}

}  // namespace eqt::model
