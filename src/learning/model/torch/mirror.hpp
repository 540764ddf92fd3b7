// SPDX-License-Identifier: Apache-2.0
// Values on the host, where all other rooms use them, and the memory that the network computes
// with: the same, or a copy on a device. Private to this room.
//
// Host memory of a device's values is pinned, so that copies run beside other work. A device's
// current stream orders what is queued: uploads, the network, downloads. Gradients are downloaded
// on a stream of their own while the backward pass continues.

#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "model/compute_device.hpp"

namespace eqt::model {

c10::Device device_of(const Placement& placement);

/// The tensor as the network of this placement computes with it. The copy to a device is queued.
at::Tensor placed(const at::Tensor& on_host, const Placement& placement);

/// (count) values, 0 at first.
class MirroredValues {
 public:
  MirroredValues(std::size_t count, const Placement& placement);

  std::span<float> host() const { return host_; }
  /// The memory of host(); null if it is pinned.
  FlatBuffer* pageable() { return pinned_.defined() ? nullptr : &pageable_; }
  /// The memory that the network computes with; null without a mirror.
  const float* on_device() const;
  /// A tensor of `like`'s shape on the memory that the network computes with; convolution kernels
  /// are channels-last, so that the convolutions need not reorder them.
  at::Tensor view(const TensorSlice& slice, const at::Tensor& like) const;
  /// Returns such a tensor on the host's memory.
  at::Tensor host_view(const TensorSlice& slice, const at::Tensor& like) const;

  // Without a mirror these do nothing. On a device they queue.
  void upload() const;
  void download() const;
  void download(const TensorSlice& slice) const;
  /// In the memory that the network computes with.
  void fill_zeros() const;

 private:
  c10::Device device_;
  FlatBuffer pageable_;  // unless it is pinned
  at::Tensor pinned_;
  std::span<float> host_;
  at::Tensor on_host_, on_device_;  // (count); undefined without a mirror
};

/// Brings the slices of a gradient to the host while a backward pass of another thread completes
/// them.
class GradientDownload {
 public:
  /// @param gradient is used by reference
  GradientDownload(const MirroredValues& gradient, const Layout& layout,
                   const Placement& placement);

  /// Between passes: slices are complete where they are, and do not come to the host.
  void leave_on_device(bool leave) { leave_ = leave; }
  /// Called before a pass.
  void start();
  /// Once for each slice that is complete, on any thread that computes gradients; later calls for
  /// the same slice do nothing.
  void add(std::size_t slice);
  /// After a pass: adds the slices that it did not reach.
  void add_rest();
  /// No slice will follow.
  void close();
  /// The next slice that is on the host, or complete on the device, in the order in which they were
  /// added; none after the last. Waits for it.
  std::optional<std::size_t> next();

 private:
  struct Copy {
    std::size_t slice = 0;
    std::optional<c10::Event> done = {};  // none: it is done
  };
  Copy start_copy(std::size_t slice);
  Copy mark_complete(std::size_t slice);

  const MirroredValues& gradient_;
  const Layout& layout_;
  const c10::Device device_;
  std::optional<c10::Stream> stream_;  // of copies from a device
  bool leave_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<bool> added_;  // by slice
  std::deque<Copy> copies_;
  bool closed_ = false;
};

}  // namespace eqt::model
