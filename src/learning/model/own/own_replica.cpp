// SPDX-License-Identifier: Apache-2.0
#include "model/own/own_replica.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "model/architecture.hpp"
#include "model/model_options.hpp"
#include "model/own/dense.hpp"
#include "model/own/executor.hpp"
#include "model/own/flat_replica.hpp"
#include "model/own/passes.hpp"
#include "model/own/plan.hpp"
#include "model/own/vision_transformer.hpp"
#include "model/process_settings.hpp"

namespace eqt::model {
namespace precision {
namespace {

// Samples of a pass in evaluation, whose results do not depend on each other.
constexpr std::size_t kEvaluated = 16;

/// A network of convolutions, with the classifier behind them.
template <typename Operand>
class ConvolutionalReplica final : public FlatReplica, public WeightRounding {
 public:
  ConvolutionalReplica(const ModelOptions& options, Plan plan, int8::Kernels kernels, int threads)
      : FlatReplica(options, plan, initial_values(plan, options.seed), plan.last.weight),
        executor_(std::move(plan), kernels, options.int8, threads) {}

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
    return executor_.round(slice, values, step());
  }
  void release() override { executor_.release(); }
  void keep_constants(std::span<float> mean) override {
    for (const Branch& branch : plan().branches)
      if (branch.keeps_statistics)
        std::ranges::copy(plan().running_values(branch, all_buffers()),
                          plan().running_values(branch, mean).begin());
  }

 private:
  const Plan& plan() const { return executor_.plan(); }

  std::span<const float> forward(const Pictures& pictures, const RandomKey* dropout) override;
  void backward(std::span<const float> errors, const RandomKey& rounding,
                const SliceReady& ready) override;
  void count_batch(std::span<std::uint64_t> counts) override { plan().count_batch(counts); }
  void expect_other_frozen() override { executor_.expect_other_frozen(); }
  std::span<const float> evaluated_means(const Pictures& pictures);
  void classify(std::span<const float> means, std::size_t n, const RandomKey* key);
  void classify_backward(const SliceReady& ready);
  void drop(const Dense& dense, const RandomKey* key, std::span<float> inputs);
  void through_dropout(const Dense& dense, std::span<float> errors) const;

  Executor<Operand> executor_;

  // These belong to the classifier, (n, ...) each.
  std::vector<float> means_, hidden_before_, hidden_, outputs_;
  std::vector<float> mask_;  // of the layer that has dropout
  std::vector<float> mean_errors_, hidden_errors_, output_errors_;
};

template <typename Operand>
std::span<const float> ConvolutionalReplica<Operand>::forward(const Pictures& pictures,
                                                              const RandomKey* dropout) {
  const Pass pass = dropout != nullptr ? Pass::training : Pass::evaluation;
  executor_.set_parameters(all_parameters(), all_frozen(), pass, step());
  classify(pass == Pass::training
               ? executor_.forward(pictures, pass, all_buffers(), step(), dropout)
               : evaluated_means(pictures),
           pictures.count(), dropout);
  return outputs_;
}

/// Computes a few samples at a time.
template <typename Operand>
std::span<const float> ConvolutionalReplica<Operand>::evaluated_means(const Pictures& pictures) {
  mean_errors_.clear();  // used for the means of all samples
  for (std::size_t first = 0; first < pictures.count(); first += kEvaluated) {
    const std::size_t some = std::min(kEvaluated, pictures.count() - first);
    Pictures few = pictures;
    few.values =
        pictures.values.subspan(first * pictures.shape.values(), some * pictures.shape.values());
    const auto means = executor_.forward(few, Pass::evaluation, all_buffers(), step());
    mean_errors_.insert(mean_errors_.end(), means.begin(), means.end());
  }
  return mean_errors_;
}

template <typename Operand>
void ConvolutionalReplica<Operand>::backward(std::span<const float> errors,
                                             const RandomKey& rounding, const SliceReady& ready) {
  output_errors_.assign(errors.begin(), errors.end());
  classify_backward(ready);
  executor_.backward(mean_errors_, rounding, all_gradients(), ready);
}

/// Fills outputs_. @param key  of dropout; null: there is none
template <typename Operand>
void ConvolutionalReplica<Operand>::classify(std::span<const float> means, std::size_t n,
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
void ConvolutionalReplica<Operand>::drop(const Dense& dense, const RandomKey* key,
                                         std::span<float> inputs) {
  if (key == nullptr || dense.dropout == 0) return;
  mask_.resize(inputs.size());
  draw_dropout(*key, 0, dense.dropout, mask_);
  through_dropout(dense, inputs);
}

template <typename Operand>
void ConvolutionalReplica<Operand>::through_dropout(const Dense& dense,
                                                    std::span<float> errors) const {
  if (dense.dropout == 0) return;
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] *= mask_[i];
}

/// Fills mean_errors_ and the classifier's gradient.
template <typename Operand>
void ConvolutionalReplica<Operand>::classify_backward(const SliceReady& ready) {
  const auto backward = [&](const Dense& dense, std::span<const float> g, std::span<const float> x,
                            std::vector<float>& dx) {
    dx.resize(x.size());
    dense_backward(g, x, values(dense.weight), dense.out, dx,
                   executor_.gradient_of(dense.weight, all_gradients()),
                   executor_.gradient_of(dense.bias, all_gradients()));
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

template <typename Operand>
std::unique_ptr<Replica> make_own_replica(const ModelOptions& options, int8::Kernels kernels,
                                          int threads) {
  check_options(options);
  if (const auto plan = vision_plan(options))
    return make_vision_transformer<Operand>(options, *plan, kernels, threads);
  return std::make_unique<ConvolutionalReplica<Operand>>(options, make_plan(options), kernels,
                                                         threads);
}

template <typename Operand>
NetworkMemory memory_of(const ModelOptions& options, std::size_t batch_size) {
  check_options(options);
  if (const auto plan = vision_plan(options)) {
    const std::size_t bytes = vision_transformer_bytes<Operand>(options, *plan, batch_size);
    return {.layout = plan->parameters,
            .frozen_values = total_count(plan->frozen),
            .gradient_bytes = bytes,
            .evaluate_bytes = bytes};
  }
  const Executor<Operand> executor(make_plan(options), int8::fastest_here(), options.int8,
                                   own_threads());
  const std::size_t bytes = executor.bytes(batch_size, kEvaluated);
  return {.layout = executor.plan().parameters,
          .frozen_values = total_count(executor.plan().frozen),
          .buffer_values = total_count(executor.plan().buffers),
          .gradient_bytes = bytes,
          .evaluate_bytes = bytes};
}

}  // namespace
}  // namespace precision

std::unique_ptr<Replica> make_int8_replica(const ModelOptions& options, int8::Kernels kernels,
                                           int threads) {
  return precision::make_own_replica<std::int8_t>(options, kernels, threads);
}

std::unique_ptr<Replica> make_float32_replica(const ModelOptions& options, int threads) {
  return precision::make_own_replica<float>(options, int8::Kernels::scalar, threads);
}

NetworkMemory int8_memory(const ModelOptions& options, std::size_t batch_size) {
  return precision::memory_of<std::int8_t>(options, batch_size);
}

NetworkMemory float32_memory(const ModelOptions& options, std::size_t batch_size) {
  return precision::memory_of<float>(options, batch_size);
}

FirstValues first_values(const ModelOptions& options) {
  using namespace precision;
  check_options(options);
  if (const auto plan = vision_plan(options)) return {*plan, initial_values(*plan, options.seed)};
  const Plan plan = make_plan(options);
  return {plan, initial_values(plan, options.seed)};
}

}  // namespace eqt::model
