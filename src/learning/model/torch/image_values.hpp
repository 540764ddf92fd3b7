// SPDX-License-Identifier: Apache-2.0
// Parts of image tensors as float32, whatever the tensors hold: bf16 is converted part by part, in
// memory that stays in a cache, so that kernels compute in float32 only.

#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/torch/bf16_kernels.hpp"

namespace eqt::model {

/// Names of a thread's pieces of memory for converted parts. A part lasts until the thread converts
/// another one under the same name.
enum class Scratch : std::uint8_t { input, gradient, other, output, gated };

/// Memory for `count` floats of this thread.
std::span<float> scratch(Scratch name, std::size_t count);

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

}  // namespace eqt::model
