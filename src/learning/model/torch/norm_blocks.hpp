// SPDX-License-Identifier: Apache-2.0
// Divides passes over an image tensor into blocks that fit into a cache. Kernels compute in float32
// only, whatever tensors hold: bf16 is converted part by part, in memory that stays in the cache.

#pragma once

#include <ATen/Parallel.h>
#include <ATen/TracerMode.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/torch/bf16_kernels.hpp"

namespace eqt::model {

/// True if LibTorch's operations compute a layer: for a tracer, and on devices.
inline bool is_for_torch(const at::Tensor& x) {
  return !x.is_cpu() || at::tracer::impl::is_dispatch_enabled();
}

/// A float tensor's memory; empty if there is no tensor.
inline std::span<float> values(const at::Tensor& t) {
  return t.defined() ? std::span<float>(t.data_ptr<float>(), static_cast<std::size_t>(t.numel()))
                     : std::span<float>();
}

/// Calls body(i) for i from 0 to count, on several threads.
template <class Body>
void for_each_of(std::size_t count, const Body& body) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1, [&](auto first, auto last) {
    for (auto i = first; i < last; ++i) body(static_cast<std::size_t>(i));
  });
}

/// Names of a thread's pieces of memory for converted parts. A part lasts until the thread converts
/// another one under the same name.
enum class Scratch : std::uint8_t { input, gradient, other, output, gated };

/// Memory for `count` floats of this thread.
inline std::span<float> scratch(Scratch name, std::size_t count) {
  thread_local std::array<std::vector<float>, 5> memory;
  std::vector<float>& own = memory[static_cast<std::size_t>(name)];
  if (own.size() < count) own.resize(count);
  return std::span(own).first(count);
}

/// A float32 or bf16 tensor; or none.
class ImageValues {
 public:
  explicit ImageValues(const at::Tensor& t) {
    if (!t.defined()) return;
    const auto count = static_cast<std::size_t>(t.numel());
    if (t.scalar_type() == at::kBFloat16)
      halves_ = {static_cast<std::uint16_t*>(t.data_ptr()), count};
    else
      floats_ = {t.data_ptr<float>(), count};
  }

  bool empty() const { return floats_.empty() && halves_.empty(); }

  /// The values from `first` on. Empty if there is no tensor.
  std::span<const float> read(std::size_t first, std::size_t count, Scratch name) const {
    if (!floats_.empty()) return floats_.subspan(first, count);
    if (halves_.empty()) return {};
    const std::span<float> wide = scratch(name, count);
    widen_bf16(halves_.subspan(first, count), wide);
    return wide;
  }

  /// Calls body(floats), which writes these values; with no floats if there is no tensor.
  template <class Body>
  void write(std::size_t first, std::size_t count, Scratch name, const Body& body) const {
    if (halves_.empty()) return body(floats_.empty() ? floats_ : floats_.subspan(first, count));
    const std::span<float> wide = scratch(name, count);
    body(wide);
    narrow_to_bf16(wide, halves_.subspan(first, count));
  }

  /// Adds to one value.
  void add(std::size_t i, float amount) const {
    if (!floats_.empty()) {
      floats_[i] += amount;
      return;
    }
    float value = 0;
    widen_bf16(halves_.subspan(i, 1), {&value, 1});
    value += amount;
    narrow_to_bf16({&value, 1}, halves_.subspan(i, 1));
  }

 private:
  std::span<float> floats_;
  std::span<std::uint16_t> halves_;
};

/// Cuts (rows, channels) into blocks of rows that fit into a first-level cache. The blocks depend
/// only on the shape, so that sums do not depend on the number of threads.
class RowBlocks {
 public:
  /// Blocks of all pixels of channels-last images.
  explicit RowBlocks(const at::Tensor& x)
      : RowBlocks(static_cast<std::size_t>(x.numel() / x.size(1)),
                  static_cast<std::size_t>(x.size(1))) {}

  RowBlocks(std::size_t rows, std::size_t channels)
      : channels_(channels),
        values_(rows * channels),
        block_(std::max(kMinRows, kBlock / channels) * channels) {}

  std::size_t channels() const { return channels_; }
  std::size_t rows() const { return values_ / channels_; }
  std::size_t count() const { return (values_ + block_ - 1) / block_; }
  std::size_t rows_of(std::size_t block) const { return length(block) / channels_; }
  std::size_t first_row(std::size_t block) const { return block * block_ / channels_; }

  template <typename T>
  std::span<T> cut(std::span<T> tensor, std::size_t block) const {
    return tensor.empty() ? tensor : tensor.subspan(block * block_, length(block));
  }

  /// A block of a tensor as float32.
  std::span<const float> read(const ImageValues& tensor, std::size_t block, Scratch name) const {
    return tensor.read(block * block_, length(block), name);
  }

  /// Calls body(floats), which writes a block of a tensor.
  template <class Body>
  void write(const ImageValues& tensor, std::size_t block, Scratch name, const Body& body) const {
    tensor.write(block * block_, length(block), name, body);
  }

  template <class Body>
  void for_each(const Body& body) const {
    for_each_of(count(), body);
  }

  /// Last block first, because the last blocks of the previous pass are still in the cache.
  template <class Body>
  void for_each_backwards(const Body& body) const {
    for_each([&](std::size_t i) { body(count() - 1 - i); });
  }

 private:
  static constexpr std::size_t kBlock = 8192;  // [floats] 32 KiB
  static constexpr std::size_t kMinRows = 64;  // so that combining blocks takes little time

  std::size_t length(std::size_t block) const { return std::min(block_, values_ - block * block_); }

  std::size_t channels_;
  std::size_t values_;
  std::size_t block_;  // [floats] whole rows
};

/// Two sums per channel from each block.
class BlockSums {
 public:
  explicit BlockSums(const RowBlocks& blocks)
      : channels_(blocks.channels()), memory_(blocks.count() * 2 * channels_) {}

  std::span<float> first(std::size_t block) {
    return std::span(memory_).subspan(block * 2 * channels_, channels_);
  }
  std::span<float> second(std::size_t block) {
    return std::span(memory_).subspan((block * 2 + 1) * channels_, channels_);
  }

 private:
  std::size_t channels_;
  std::vector<float> memory_;
};

/// Images whose channels are normalized in groups, separately for each sample.
struct GroupShape {
  GroupShape(const at::Tensor& x, std::int64_t group_count)
      : samples(static_cast<std::size_t>(x.size(0))),
        rows(static_cast<std::size_t>(x.size(2) * x.size(3))),
        channels(static_cast<std::size_t>(x.size(1))),
        groups(static_cast<std::size_t>(group_count)) {}

  std::size_t group_channels() const { return channels / groups; }
  std::size_t group_values() const { return rows * group_channels(); }
  RowBlocks blocks() const { return {rows, channels}; }  // of one sample

  /// One sample of a tensor as float32.
  std::span<const float> read(const ImageValues& tensor, std::size_t i, Scratch name) const {
    return tensor.read(i * rows * channels, rows * channels, name);
  }

  /// Calls body(floats), which writes one sample of a tensor.
  template <class Body>
  void write(const ImageValues& tensor, std::size_t i, Scratch name, const Body& body) const {
    tensor.write(i * rows * channels, rows * channels, name, body);
  }

  /// Calls body(channel, its group), in order.
  template <class Body>
  void for_each_channel(const Body& body) const {
    const std::size_t width = group_channels();
    for (std::size_t group = 0, c = 0; group < groups; ++group) {
      for (const std::size_t end = c + width; c < end; ++c) body(c, group);
    }
  }

  std::size_t samples, rows, channels, groups;  // rows: pixels of a sample
};

}  // namespace eqt::model
