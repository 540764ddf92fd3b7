// SPDX-License-Identifier: Apache-2.0
// An emulated board: a network's layout and time per step, without its computation.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/layout.hpp"
#include "forecast/board_speed.hpp"
#include "model/replica.hpp"

namespace eqt::model {

struct EmulationOptions {
  double step_seconds = 0;       // forward and backward of a step with a batch of `batch_size`
  std::size_t batch_size = 0;    // [samples]; 0: a step takes that long with any batch
  int image_side = 32;           // [pixels] of the images that the network would see
  std::uint64_t seed = 1;        // of the gradients
  Rank rank = 0;                 // ranks draw independently
  std::size_t batches = 1;       // calls of forward_backward in a step
  forecast::BoardSpeed speed{};  // what changes the time of a step
};

/// A replica with `network`'s layout, parameters and gradient that never runs it: forward_backward
/// looks only at the size of its batch, sleeps in proportion to it, changed by `speed`, and leaves
/// a drawn gradient, a pure function of (seed, calls so far, rank, slice, index). Slices are ready
/// by ready_parts(). The loss is NaN, since there is none; there are no buffers; evaluating, saving
/// and loading are bugs.
std::unique_ptr<Replica> make_emulated_replica(std::unique_ptr<Replica> network,
                                               const EmulationOptions& options);

/// The mean time of a call of forward_backward in the first `steps` steps [seconds].
double planned_seconds(const EmulationOptions& options, StepId steps);

/// Multiply-adds of each slice for one image of `side` pixels: values times output positions, which
/// follow from the names in all networks of this program but airbench, bert and torchscript. For
/// other names: the number of values.
std::vector<double> multiply_adds(const Layout& layout, int side);

/// The part of forward and backward pass that the forward pass takes: a layer's gradient costs two
/// products of its size, one with respect to the weights, one with respect to the input.
inline constexpr double kForwardShare = 1.0 / 3;

/// The part of forward and backward pass after which each slice is ready, last slices first, by
/// their multiply-adds.
std::vector<double> ready_parts(std::span<const double> multiply_adds);

}  // namespace eqt::model
