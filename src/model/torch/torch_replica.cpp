// SPDX-License-Identifier: Apache-2.0
#include "model/torch/torch_replica.hpp"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "metrics/output_file.hpp"
#include "model/mixup.hpp"
#include "model/torch/frozen.hpp"
#include "model/torch/task_loss.hpp"
#include "model/torch/torch_errors.hpp"
#include "model/torch/weights.hpp"
#include "weights/safetensors.hpp"

namespace eqt::model {
namespace {

/// A tensor of `like`'s shape on the buffer's memory; convolution kernels are channels-last, so
/// that the convolutions need not reorder them.
at::Tensor view_of(std::span<float> memory, const at::Tensor& like) {
  const at::Tensor flat = at::from_blob(memory.data(), {like.numel()}, at::kFloat);
  if (like.dim() != 4) return flat.view(like.sizes());
  const auto in = like.size(1), rows = like.size(2), columns = like.size(3);
  return flat.as_strided(like.sizes(), {rows * columns * in, 1, columns * in, in});
}

/// A tensor on the array's own memory, which is only read: LibTorch has no view of constant memory.
at::Tensor view_of(const data::Array& array) {
  return std::visit(
      [&](const auto& values) {
        EQT_CHECK(std::ssize(values) == c10::multiply_integers(array.shape),
                  "{} values of {} in a batch of {}", values.size(), array.spec.name, array.size());
        using Value = typename std::decay_t<decltype(values)>::value_type;
        return at::from_blob(const_cast<Value*>(values.data()), array.shape,
                             c10::CppTypeToScalarType<Value>::value);
      },
      array.values);
}

/// Lays out tensors one after another.
Layout lay_out(const NamedTensors& tensors) {
  Layout layout;
  for (const auto& [name, tensor] : tensors) {
    layout.push_back({name, tensor.sizes().vec(), total_count(layout),
                      static_cast<std::size_t>(tensor.numel())});
  }
  return layout;
}

std::span<float> slice_of(const FlatBuffer& buffer, const TensorSlice& slice) {
  return buffer.span().subspan(slice.offset, slice.count);
}

/// Copies the tensors' values into the buffer and makes the tensors views of it.
void move_into(const FlatBuffer& buffer, const Layout& layout, const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    at::Tensor tensor = tensors[i].second;
    at::Tensor view = view_of(slice_of(buffer, layout[i]), tensor);
    view.copy_(tensor);
    tensor.set_data(view);
  }
}

NamedTensors of_type(const NamedTensors& tensors, at::ScalarType type) {
  NamedTensors chosen;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(chosen),
               [&](const auto& item) { return item.second.scalar_type() == type; });
  return chosen;
}

/// Calls the listener for each slice once per backward pass. An exception of the listener is kept
/// until the end
/// of the pass and then thrown unchanged.
class SliceNotifier {
 public:
  void start(const SliceReady& listener, std::size_t slices) {
    listener_ = &listener;
    notified_.assign(slices, false);
    error_ = nullptr;
  }

  void notify(std::size_t slice) {
    if (notified_[slice] || error_) return;
    notified_[slice] = true;
    if (!*listener_) return;
    try {
      (*listener_)(slice);
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  /// Calls it for the slices that backward did not reach, the last slice first.
  void finish() {
    for (std::size_t i = notified_.size(); i-- > 0;) notify(i);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const SliceReady* listener_ = nullptr;
  std::vector<bool> notified_;
  std::exception_ptr error_;
};

/// Runs after a parameter's gradient has been added up.
class NotifyHook : public torch::autograd::FunctionPostHook {
 public:
  NotifyHook(SliceNotifier& notifier, std::size_t slice) : notifier_(notifier), slice_(slice) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    notifier_.notify(slice_);
    return outputs;
  }

 private:
  SliceNotifier& notifier_;
  std::size_t slice_;
};

// A shared_ptr or an intrusive_ptr, by LibTorch's version.
using Accumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

/// While it lives, this thread's operations round their operands to bf16 where LibTorch's autocast
/// for processors lists them: convolutions, linear layers and matrix products. A weight is rounded
/// once.
class Autocast {
 public:
  Autocast() {
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(true);
  }
  ~Autocast() {
    at::autocast::set_cpu_enabled(false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

class TorchReplica final : public Replica {
 public:
  TorchReplica(std::shared_ptr<Network> network, const ReplicaInput& input)
      : network_(std::move(network)),
        input_(input),
        loss_(make_task_loss(input.task, input.outputs)),
        all_parameters_(network_->parameters_by_name()),
        split_(split_parameters(all_parameters_, input.freeze)),
        parameter_tensors_(split_.trained),
        buffer_tensors_(network_->buffers_by_name()),
        layout_(lay_out(parameter_tensors_)),
        buffer_layout_(lay_out(of_type(buffer_tensors_, at::kFloat))),
        parameters_(total_count(layout_)),
        gradient_(total_count(layout_)),
        buffers_(total_count(buffer_layout_)),
        frozen_layout_(lay_out(split_.frozen)),
        frozen_(total_count(frozen_layout_)) {
    move_into(parameters_, layout_, parameter_tensors_);
    move_into(frozen_, frozen_layout_, split_.frozen);
    move_into(buffers_, buffer_layout_, of_type(buffer_tensors_, at::kFloat));
    for (std::size_t i = 0; i < layout_.size(); ++i) {
      at::Tensor& parameter = parameter_tensors_[i].second;
      parameter.mutable_grad() = view_of(slice_of(gradient_, layout_[i]), parameter);
      accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameter));
      accumulators_.back()->add_post_hook(std::make_unique<NotifyHook>(notifier_, i));
    }
  }

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_.span(); }
  std::span<float> gradient() override { return gradient_.span(); }
  FlatBuffer* gradient_memory() override { return &gradient_; }
  std::span<float> buffers() override { return buffers_.span(); }
  std::span<float> frozen() override { return frozen_.span(); }

  double forward_backward(const data::Batch& batch, const SliceReady& on_ready) override {
    return guarded("computing a gradient", [&] {
      network_->train();
      const RandomKey key = make_key(
          input_.seed, batches_++, static_cast<std::uint32_t>(input_.rank), RandomPurpose::dropout);
      network_->draw_from(key);
      std::ranges::fill(gradient_.span(), 0.0f);
      notifier_.start(on_ready, layout_.size());
      const at::Tensor targets = targets_of(batch);
      const at::Tensor loss = input_.task.mixup > 0
                                  ? mixed_loss(batch, targets, key)
                                  : loss_->loss(output_for(input_of(batch), targets), targets);
      loss.backward();
      check_gradients_in_place();
      notifier_.finish();
      return loss.item<double>();
    });
  }

  Evaluation evaluate(const data::Batch& batch) override {
    return guarded("evaluating", [&] {
      const at::NoGradGuard no_grad;
      network_->eval();
      const at::Tensor targets = targets_of(batch);
      return loss_->evaluate(output_for(input_of(batch), targets), targets, batch.size());
    });
  }

  void predict(const data::Batch& batch, data::Array& out) override {
    if (input_.task.kind->own_loss)
      fail(Kind::usage,
           "task.kind \"{}\": expected a network that returns what it has found, but of this one "
           "only the loss is known; train it with another task",
           input_.task.kind->name);
    guarded("predicting", [&] {
      const at::NoGradGuard no_grad;
      network_->eval();
      const at::Tensor output = run(input_of(batch)).to(at::kFloat).contiguous();
      const data::ArraySpec spec = {.name = "output", .shape = output.sizes().slice(1).vec()};
      const auto values = out.prepare<float>(spec, batch.size());
      EQT_CHECK(std::ssize(values) == output.numel(), "{} values of {} samples", output.numel(),
                batch.size());
      std::copy_n(output.data_ptr<float>(), values.size(), values.begin());
    });
  }

  void set_rank(Rank rank) override { input_.rank = rank; }

  void visit_state(StateVisitor& visitor, Across models) override {
    // Each rank has statistics of its own batches, even if models are equal.
    const Across statistics = models == Across::same ? Across::mean : models;
    visitor.values("parameters", parameters_.span(), models);
    visitor.values("buffers", buffers_.span(), statistics);
    if (!split_.frozen.empty()) visitor.values("frozen", frozen_.span(), Across::same);
    visitor.number("batches", batches_, Across::own);
    visit_counters(visitor);
  }

  void save_weights(const std::string& path) const override { write_weights(path, state()); }
  void save_safetensors(const std::string& path, const Metadata& metadata) const override {
    metrics::write_atomically(path, weights::pack_safetensors(described(state()), metadata));
  }
  void load_weights(const std::string& path) override {
    read_weights(path, state(), {.own = network_->file_names().own});
  }
  void load_pretrained(const std::string& path) override {
    read_weights(path, state(), network_->file_names());
  }

 private:
  /// Buffers that are integers, such as batch normalization's count of batches.
  void visit_counters(StateVisitor& visitor) {
    std::vector<std::uint64_t> counts;
    const NamedTensors counters = of_type(buffer_tensors_, at::kLong);
    for (const auto& counter : counters) {
      EQT_CHECK(counter.second.numel() == 1, "{} is no counter", counter.first);
      counts.push_back(static_cast<std::uint64_t>(*counter.second.data_ptr<std::int64_t>()));
    }
    visitor.numbers("counters", counts, Across::own);
    if (!visitor.restores()) return;
    for (std::size_t i = 0; i < counts.size(); ++i)
      *counters[i].second.data_ptr<std::int64_t>() = static_cast<std::int64_t>(counts[i]);
  }

  NamedTensors state() const {
    NamedTensors all = all_parameters_;
    all.insert(all.end(), buffer_tensors_.begin(), buffer_tensors_.end());
    return all;
  }

  /// The loss of mixup.
  at::Tensor mixed_loss(const data::Batch& batch, const at::Tensor& targets, const RandomKey& key) {
    const double share = draw_mixup_share(input_.task.mixup, key);
    NetworkInput input = input_of(batch);
    for (auto& array : input.arrays)
      array.second = share * array.second + (1 - share) * array.second.flip({0});
    const at::Tensor output = output_for(std::move(input), targets);
    return share * loss_->loss(output, targets) +
           (1 - share) * loss_->loss(output, targets.flip({0}));
  }

  /// What the network returns, if the task can use it.
  at::Tensor output_for(NetworkInput input, const at::Tensor& targets) {
    if (input_.task.kind->own_loss) input.targets = targets;
    at::Tensor output = run(input);
    const bool floats = at::isFloatingType(output.scalar_type());
    const std::string expected =
        floats ? loss_->misfit(output, input.size(), targets) : "floats of any size";
    if (expected.empty()) return output;
    fail(Kind::data, "task.kind \"{}\": expected {} to return {}, found {} of shape {}",
         input_.task.kind->name, network_->title(), expected, c10::toString(output.scalar_type()),
         c10::str(output.sizes()));
  }

  /// What the network returns; the loss is computed in float32.
  at::Tensor run(const NetworkInput& input) {
    if (!input_.casts) return network_->forward(input);
    const Autocast autocast;
    const at::Tensor output = network_->forward(input);
    return output.scalar_type() == at::kBFloat16 ? output.to(at::kFloat) : output;
  }

  NetworkInput input_of(const data::Batch& batch) const {
    EQT_CHECK(batch.size() > 0 && batch.inputs.size() == input_.inputs.size(),
              "{} samples with {} arrays, {} expected", batch.size(), batch.inputs.size(),
              input_.inputs.size());
    NetworkInput input;
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
      const data::Array& array = batch.inputs[i];
      EQT_CHECK(array.spec == input_.inputs[i] && array.size() == batch.size(),
                "{} of {} samples, expected {} of {}", data::text_of(array.spec), array.size(),
                data::text_of(input_.inputs[i]), batch.size());
      at::Tensor tensor = view_of(array);
      if (data::image_shape(array.spec))
        tensor = framed(tensor.permute({0, 3, 1, 2}), input_.frame);
      input.arrays.emplace_back(array.spec.name, std::move(tensor));
    }
    return input;
  }

  /// Undefined if the batch has none.
  at::Tensor targets_of(const data::Batch& batch) const {
    EQT_CHECK(input_.target.has_value() == !batch.targets.empty() &&
                  (batch.targets.empty() || batch.targets.size() == batch.size()),
              "{} targets of {} samples", batch.targets.size(), batch.size());
    if (batch.targets.empty()) return {};
    loss_->check(batch.targets);
    return view_of(batch.targets);
  }

  /// Autograd adds to an existing gradient. If it had replaced one, the flat buffer would silently
  /// miss it.
  void check_gradients_in_place() const {
    for (std::size_t i = 0; i < layout_.size(); ++i) {
      EQT_CHECK(parameter_tensors_[i].second.grad().data_ptr<float>() ==
                    slice_of(gradient_, layout_[i]).data(),
                "the gradient of {} left the flat buffer", layout_[i].name);
    }
  }

  std::shared_ptr<Network> network_;
  ReplicaInput input_;
  std::unique_ptr<TaskLoss> loss_;
  NamedTensors all_parameters_;  // the network's own handles
  SplitParameters split_;
  NamedTensors& parameter_tensors_;  // those that are trained
  NamedTensors buffer_tensors_;
  Layout layout_;
  Layout buffer_layout_;
  FlatBuffer parameters_;  // (d)
  FlatBuffer gradient_;    // (d)
  FlatBuffer buffers_;     // (b)
  Layout frozen_layout_;
  FlatBuffer frozen_;
  SliceNotifier notifier_;
  std::vector<Accumulator> accumulators_;  // own their hooks
  StepId batches_ = 0;                     // trained on so far; part of the next batch's random key
};

}  // namespace

std::unique_ptr<Replica> make_torch_replica(std::shared_ptr<Network> network,
                                            const ReplicaInput& input) {
  for (const auto& module : network->named_modules()) {
    auto* const norm = dynamic_cast<Normalization*>(module.value().get());
    if (norm != nullptr) norm->set_path(module.key());
    auto* const convolution = dynamic_cast<ConvolutionImpl*>(module.value().get());
    if (convolution != nullptr && input.precision == Precision::bf16)
      convolution->use_bf16(bf16_arithmetic());
  }
  return std::make_unique<TorchReplica>(std::move(network), input);
}

}  // namespace eqt::model
