// SPDX-License-Identifier: Apache-2.0
#include "model/torch/mirror.hpp"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace eqt::model {
namespace {

at::Tensor shaped(float* memory, const at::Tensor& like, c10::Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const std::int64_t count = like.numel();
  const at::Tensor flat =
      at::for_blob(memory, {count}).options(options).target_device(device).make_tensor();
  if (like.dim() != 4) return flat.view(like.sizes());
  const auto in = like.size(1), rows = like.size(2), columns = like.size(3);
  return flat.as_strided(like.sizes(), {rows * columns * in, 1, columns * in, in});
}

void queue_copy(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  at::Tensor target = to;
  target.copy_(from, /*non_blocking=*/true);
}

at::Tensor part(const at::Tensor& flat, const TensorSlice& slice) {
  return flat.narrow(0, static_cast<std::int64_t>(slice.offset),
                     static_cast<std::int64_t>(slice.count));
}

}  // namespace

c10::Device device_of(const Placement& placement) {
  if (!placement.cuda) return c10::Device(c10::DeviceType::CPU);
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(*placement.cuda));
}

at::Tensor placed(const at::Tensor& on_host, const Placement& placement) {
  if (!placement.cuda) return placement.mirrored ? on_host.clone() : on_host;
  return on_host.pin_memory().to(on_host.options().device(device_of(placement)),
                                 /*non_blocking=*/true);
}

MirroredValues::MirroredValues(std::size_t count, const Placement& placement)
    : device_(device_of(placement)) {
  const auto n = static_cast<std::int64_t>(count);
  if (placement.cuda && count > 0) {
    pinned_ = at::zeros({n}, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
    host_ = {pinned_.data_ptr<float>(), count};
  } else {
    pageable_ = FlatBuffer(count);
    host_ = pageable_.span();
  }
  if (!placement.mirrored || count == 0) return;
  on_host_ = pinned_.defined() ? pinned_ : at::from_blob(host_.data(), {n}, at::kFloat);
  on_device_ = at::zeros({n}, at::TensorOptions().dtype(at::kFloat).device(device_));
}

const float* MirroredValues::on_device() const {
  return on_device_.defined() ? on_device_.data_ptr<float>() : nullptr;
}

at::Tensor MirroredValues::view(const TensorSlice& slice, const at::Tensor& like) const {
  if (!on_device_.defined()) return host_view(slice, like);
  return shaped(on_device_.data_ptr<float>() + slice.offset, like, device_);
}

at::Tensor MirroredValues::host_view(const TensorSlice& slice, const at::Tensor& like) const {
  return shaped(host_.data() + slice.offset, like, c10::Device(c10::DeviceType::CPU));
}

void MirroredValues::upload() const {
  if (on_device_.defined()) queue_copy(on_device_, on_host_);
}

void MirroredValues::download() const {
  if (on_device_.defined()) queue_copy(on_host_, on_device_);
}

void MirroredValues::download(const TensorSlice& slice) const {
  if (on_device_.defined()) queue_copy(part(on_host_, slice), part(on_device_, slice));
}

void MirroredValues::fill_zeros() const {
  if (!on_device_.defined()) {
    std::ranges::fill(host_, 0.0f);
    return;
  }
  const at::NoGradGuard no_grad;
  on_device_.zero_();
}

GradientDownload::GradientDownload(const MirroredValues& gradient, const Layout& layout,
                                   const Placement& placement)
    : gradient_(gradient), layout_(layout), device_(device_of(placement)) {
  if (placement.cuda)
    stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
}

void GradientDownload::start() {
  const std::lock_guard lock(mutex_);
  added_.assign(layout_.size(), false);
  copies_.clear();
  closed_ = false;
}

GradientDownload::Copy GradientDownload::start_copy(std::size_t slice) {
  if (!stream_) {
    gradient_.download(layout_[slice]);
    return {.slice = slice};
  }
  const c10::DeviceGuard on_device(device_);
  // The copy waits for what this thread has queued so far.
  c10::Event computed(device_.type());
  computed.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  computed.block(*stream_);
  {
    const c10::StreamGuard on_stream(*stream_);
    gradient_.download(layout_[slice]);
  }
  Copy copy{.slice = slice, .done = c10::Event(device_.type())};
  copy.done->record(*stream_);
  return copy;
}

/// An event of what this thread has queued so far.
GradientDownload::Copy GradientDownload::mark_complete(std::size_t slice) {
  if (!stream_) return {.slice = slice};
  const c10::DeviceGuard on_device(device_);
  Copy complete{.slice = slice, .done = c10::Event(device_.type())};
  complete.done->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return complete;
}

void GradientDownload::add(std::size_t slice) {
  {
    const std::lock_guard lock(mutex_);
    if (added_[slice]) return;
    added_[slice] = true;
    copies_.push_back(leave_ ? mark_complete(slice) : start_copy(slice));
  }
  changed_.notify_one();
}

void GradientDownload::add_rest() {
  for (std::size_t i = layout_.size(); i-- > 0;) add(i);
}

void GradientDownload::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
}

std::optional<std::size_t> GradientDownload::next() {
  // A poll: LibTorch 1.13 has no wait for an event, and a busy core would be missed elsewhere.
  constexpr std::chrono::microseconds kPoll{20};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !copies_.empty(); });
  if (copies_.empty()) return {};
  const Copy copy = std::move(copies_.front());
  copies_.pop_front();
  lock.unlock();
  while (copy.done && !copy.done->query()) std::this_thread::sleep_for(kPoll);
  return copy.slice;
}

}  // namespace eqt::model
