// SPDX-License-Identifier: Apache-2.0
// The tensors of a network that we compute ourselves: their names and places, and the values that
// training starts with. No torch.
//
// Layouts, names and orders are those of the network that LibTorch runs (Network).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"

namespace eqt::model::precision {

struct TensorPlan {
  // All parameters in the network's order. Places are those in two buffers: of parameters that are
  // trained and, counted on from their end, of the others.
  Layout tensors;
  Layout parameters, frozen;                        // each kind, by itself
  std::vector<std::optional<std::size_t>> trained;  // by tensor: its index in `parameters`
  Layout buffers;                                   // those of float32
  std::size_t counters = 0;                         // num_batches_tracked

  bool trains(std::size_t tensor) const { return trained[tensor].has_value(); }

  /// The values of a tensor in the buffers of both kinds.
  template <typename Value>
  std::span<Value> values(std::size_t tensor, std::span<Value> of_trained,
                          std::span<Value> of_frozen) const {
    const TensorSlice& slice = tensors[tensor];
    return trained[tensor] ? of_trained.subspan(slice.offset, slice.count)
                           : of_frozen.subspan(slice.offset - of_trained.size(), slice.count);
  }

  /// Adds a slice behind the others. @return its index
  static std::size_t add_slice(Layout& layout, const std::string& name,
                               std::vector<std::int64_t> shape);
  /// Adds a parameter. @return its index in `tensors`
  std::size_t add(const std::string& name, std::vector<std::int64_t> shape) {
    return add_slice(tensors, name, std::move(shape));
  }
  /// Finds what is trained once all tensors are added, and gives each its place.
  /// @param freeze  model.freeze; @param untrained  names that the network itself does not train
  /// @throws Error{usage} as frozen_parameters() and check_trains()
  void split(std::span<const std::string> freeze, std::span<const std::string> untrained = {});
};

/// The values of all tensors of a plan.
struct TensorValues {
  FlatBuffer parameters, frozen, buffers;
  explicit TensorValues(const TensorPlan& plan)
      : parameters(total_count(plan.parameters)),
        frozen(total_count(plan.frozen)),
        buffers(total_count(plan.buffers)) {}
  std::span<float> of(const TensorPlan& plan, std::size_t tensor) const {
    return plan.values(tensor, parameters.span(), frozen.span());
  }
};

// Random numbers of the values that a network starts training with.
//
// Source   PyTorch's uniform and normal values; M. Matsumoto, T. Nishimura, 1998 (the Mersenne
//          twister); G. Box, M. Muller, 1958 (normal values)
// Draws    those of the network that LibTorch runs, in the same order, so that runs of one seed
//          start from the same weights in every precision. LibTorch's own values depend on the
//          processor in their last bits, for it has approximations of its own on some. These are
//          the same on all processors, and differ from LibTorch's by rounding alone.

using Twister = std::mt19937;

/// Draws normal values of mean 0. @pre at least 16 values
void draw_normal(Twister& random, double deviation, std::span<float> out);
/// Draws uniform values within 1 / sqrt(inputs) of 0.
void draw_uniform(Twister& random, std::size_t inputs, std::span<float> out);
/// Reorders values from (out, in, rows, columns) to channels last.
void reorder(std::span<const float> from, const std::vector<std::int64_t>& shape,
             std::span<float> to);

}  // namespace eqt::model::precision
