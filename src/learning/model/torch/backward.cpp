// SPDX-License-Identifier: Apache-2.0
#include "model/torch/backward.hpp"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <future>
#include <stdexcept>

#include "core/error.hpp"

namespace eqt::model {
namespace {

/// Runs after a parameter's gradient has been added up.
class CompleteHook : public torch::autograd::FunctionPostHook {
 public:
  explicit CompleteHook(std::function<void()> complete) : complete_(std::move(complete)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    complete_();
    return outputs;
  }

 private:
  std::function<void()> complete_;
};

}  // namespace

void SliceNotifier::start(const SliceReady& listener, std::size_t slices) {
  listener_ = &listener;
  notified_.assign(slices, false);
  error_ = nullptr;
}

void SliceNotifier::notify(std::size_t slice) {
  if (notified_[slice] || error_) return;
  notified_[slice] = true;
  if (!*listener_) return;
  try {
    (*listener_)(slice);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void SliceNotifier::end_if_failed() const {
  if (error_) throw std::runtime_error("the listener of a backward pass has failed");
}

void SliceNotifier::finish() {
  for (std::size_t i = notified_.size(); i-- > 0;) notify(i);
  if (error_) std::rethrow_exception(error_);
}

Backward::Backward(const NamedTensors& parameters, const MirroredValues& gradient,
                   const Layout& layout, const Placement& placement)
    : parameters_(parameters), gradient_(gradient), layout_(layout), placement_(placement) {
  if (placement.mirrored) download_.emplace(gradient, layout, placement);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    at::Tensor parameter = parameters[i].second;
    parameter.mutable_grad() = gradient.view(layout[i], parameter);
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameter));
    accumulators_.back()->add_post_hook(std::make_unique<CompleteHook>([this, i] {
      if (download_) return download_->add(i);
      notifier_.notify(i);
      notifier_.end_if_failed();
    }));
  }
}

void Backward::start() { gradient_.fill_zeros(); }

void Backward::run(const at::Tensor& loss, const SliceReady& on_ready) {
  notifier_.start(on_ready, layout_.size());
  if (download_) {
    run_beside(loss);
  } else {
    try {
      loss.backward();
    } catch (...) {
      // LibTorch may wrap what a hook throws: the listener's own error is thrown below.
      if (!notifier_.failed()) throw;
    }
  }
}

void Backward::finish() {
  if (!notifier_.failed()) check_gradients_in_place();
  notifier_.finish();
}

/// The pass has a thread of its own, since LibTorch's call returns only at its end; this one passes
/// on what has arrived.
void Backward::run_beside(const at::Tensor& loss) {
  download_->start();
  std::future<void> pass = std::async(std::launch::async, [&] {
    struct Closer {
      GradientDownload& download;
      ~Closer() { download.close(); }
    } const closer{*download_};
    at::init_num_threads();
    c10::OptionalDeviceGuard on_device;
    if (placement_.cuda) on_device.reset_device(device_of(placement_));
    loss.backward();
    download_->add_rest();
  });
  while (const auto slice = download_->next()) notifier_.notify(*slice);
  pass.get();
}

/// Autograd adds to an existing gradient. If it had replaced one, the flat buffer would silently
/// miss it.
void Backward::check_gradients_in_place() const {
  for (std::size_t i = 0; i < layout_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    EQT_CHECK(parameter.grad().data_ptr<float>() ==
                  gradient_.view(layout_[i], parameter).data_ptr<float>(),
              "the gradient of {} left the flat buffer", layout_[i].name);
  }
}

}  // namespace eqt::model
