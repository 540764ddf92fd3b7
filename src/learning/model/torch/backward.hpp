// SPDX-License-Identifier: Apache-2.0
// Runs backward passes and says when each slice of the gradient is on the host, or complete on the
// device. Private to this room.

#pragma once

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model/replica.hpp"
#include "model/torch/mirror.hpp"
#include "model/torch/weights.hpp"

namespace eqt::model {

/// Calls the listener for each slice once per backward pass. An exception of the listener is kept,
/// and thrown unchanged by finish().
class SliceNotifier {
 public:
  void start(const SliceReady& listener, std::size_t slices);
  void notify(std::size_t slice);
  bool failed() const noexcept { return error_ != nullptr; }
  /// In a hook of LibTorch: throws if the listener has failed, to end the pass.
  void end_if_failed() const;
  /// Calls it for the slices that backward did not reach, the last slice first.
  void finish();

 private:
  const SliceReady* listener_ = nullptr;
  std::vector<bool> notified_;
  std::exception_ptr error_;
};

class Backward {
 public:
  /// Gives the parameters gradients that are views of `gradient`, which it uses by reference, as it
  /// does the layout.
  Backward(const NamedTensors& parameters, const MirroredValues& gradient, const Layout& layout,
           const Placement& placement);

  /// Sets whether gradients stay where they are computed. @pre the placement has a mirror
  void leave_on_device(bool leave) { download_->leave_on_device(leave); }
  /// Before the forward pass: makes the gradient 0.
  void start();
  /// Adds the loss's gradient. The listener is called on this thread, until it fails; it must live
  /// until finish(). Throws what LibTorch throws.
  void run(const at::Tensor& loss, const SliceReady& on_ready);
  /// Calls the listener for what the pass did not reach, or throws what it has thrown.
  void finish();

 private:
  // A shared_ptr or an intrusive_ptr, by LibTorch's version.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  void run_beside(const at::Tensor& loss);
  void check_gradients_in_place() const;

  const NamedTensors& parameters_;
  const MirroredValues& gradient_;
  const Layout& layout_;
  const Placement placement_;
  SliceNotifier notifier_;
  std::optional<GradientDownload> download_;  // with a mirror
  std::vector<Accumulator> accumulators_;     // own their hooks
};

}  // namespace eqt::model
