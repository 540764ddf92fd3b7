// SPDX-License-Identifier: Apache-2.0
#include "model/torch_replica.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "model/torch_errors.hpp"
#include "model/weights.hpp"

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

class TorchReplica final : public Replica {
 public:
  TorchReplica(std::shared_ptr<Network> network, const ReplicaInput& input)
      : network_(std::move(network)),
        input_(input),
        parameter_tensors_(network_->parameters_by_name()),
        buffer_tensors_(network_->buffers_by_name()),
        layout_(lay_out(parameter_tensors_)),
        buffer_layout_(lay_out(of_type(buffer_tensors_, at::kFloat))),
        parameters_(total_count(layout_)),
        gradient_(total_count(layout_)),
        buffers_(total_count(buffer_layout_)) {
    move_into(parameters_, layout_, parameter_tensors_);
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
  std::span<float> buffers() override { return buffers_.span(); }

  double forward_backward(const data::Batch& batch, const SliceReady& on_ready) override {
    return guarded("computing a gradient", [&] {
      network_->train();
      network_->draw_from(make_key(input_.seed, batches_++, static_cast<std::uint32_t>(input_.rank),
                                   RandomPurpose::dropout));
      std::ranges::fill(gradient_.span(), 0.0f);
      notifier_.start(on_ready, layout_.size());
      const at::Tensor loss =
          at::cross_entropy_loss(network_->forward(images_of(batch)), labels_of(batch));
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
      const at::Tensor logits = network_->forward(images_of(batch)).to(at::kDouble);
      const at::Tensor labels = labels_of(batch);
      Evaluation result;
      result.loss_sum =
          at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
      result.correct = static_cast<std::size_t>(logits.argmax(1).eq(labels).sum().item<long>());
      result.count = batch.size();
      return result;
    });
  }

  void set_rank(Rank rank) override { input_.rank = rank; }

  void visit_state(StateVisitor& visitor, Across models) override {
    // Each rank has statistics of its own batches, even if models are equal.
    const Across statistics = models == Across::same ? Across::mean : models;
    visitor.values("parameters", parameters_.span(), models);
    visitor.values("buffers", buffers_.span(), statistics);
    visitor.number("batches", batches_, Across::own);
    visit_counters(visitor);
  }

  void save_weights(const std::string& path) const override { write_weights(path, state()); }
  void load_weights(const std::string& path) override { read_weights(path, state()); }

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
    NamedTensors all = parameter_tensors_;
    all.insert(all.end(), buffer_tensors_.begin(), buffer_tensors_.end());
    return all;
  }

  /// The batch's own memory as (n, c, h, w) tensor; framed with zeros when the images are small.
  at::Tensor images_of(const data::Batch& batch) const {
    EQT_CHECK(batch.shape == input_.images && batch.size() > 0 &&
                  batch.images.size() == batch.size() * batch.shape.values(),
              "{} labels, {} values of images {}x{}x{}", batch.size(), batch.images.size(),
              batch.shape.channels, batch.shape.height, batch.shape.width);
    // LibTorch has no view of constant memory; the network only reads it.
    auto* const memory = const_cast<float*>(batch.images.data());
    const at::Tensor images =
        at::from_blob(memory,
                      {static_cast<std::int64_t>(batch.size()), batch.shape.height,
                       batch.shape.width, batch.shape.channels},
                      at::kFloat)
            .permute({0, 3, 1, 2});
    const Frame& frame = input_.frame;
    if (frame == Frame{}) return images;
    return at::constant_pad_nd(images, {frame.left, frame.right, frame.top, frame.bottom});
  }

  at::Tensor labels_of(const data::Batch& batch) const {
    for (const std::int64_t label : batch.labels) {
      EQT_CHECK(label >= 0 && label < input_.classes, "label {} of {} classes", label,
                input_.classes);
    }
    auto* const memory = const_cast<std::int64_t*>(batch.labels.data());
    return at::from_blob(memory, {static_cast<std::int64_t>(batch.size())}, at::kLong);
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
  NamedTensors parameter_tensors_;  // the network's own handles
  NamedTensors buffer_tensors_;
  Layout layout_;
  Layout buffer_layout_;
  FlatBuffer parameters_;  // (d)
  FlatBuffer gradient_;    // (d)
  FlatBuffer buffers_;     // (b)
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
  }
  return std::make_unique<TorchReplica>(std::move(network), input);
}

}  // namespace eqt::model
