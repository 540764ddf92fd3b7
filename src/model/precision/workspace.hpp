// SPDX-License-Identifier: Apache-2.0
// The 8-bit values that a pass through a network keeps, in one block of memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "model/precision/plan.hpp"

namespace eqt::model::precision {

/// 8-bit values of consecutive samples, with a scale for each.
struct Samples {
  std::span<std::int8_t> values;  // (n, count)
  std::span<float> scales;        // (n)
  std::size_t count = 0;          // values of a sample

  Samples part(std::size_t first, std::size_t n) const {
    return {values.subspan(first * count, n * count), scales.subspan(first, n), count};
  }
  std::span<std::int8_t> sample(std::size_t i) const { return values.subspan(i * count, count); }
};

enum class Pass { training, evaluation };

class Workspace {
 public:
  Workspace() = default;
  /// For up to `samples` samples. Training also keeps what the backward pass reads.
  Workspace(const Plan& plan, std::size_t samples, Pass pass);

  std::size_t samples() const { return samples_; }
  std::size_t bytes() const { return bytes_; }  // of the block

  Samples node(int i) const { return at(static_cast<std::size_t>(i)); }
  /// The input of the branch's normalization.
  Samples branch(int i) const { return at(nodes_ + static_cast<std::size_t>(i)); }
  /// The error of a node. @pre training
  Samples error(int i) const { return at(nodes_ + branches_ + static_cast<std::size_t>(i)); }

 private:
  Samples at(std::size_t item) const;

  std::size_t samples_ = 0, nodes_ = 0, branches_ = 0, bytes_ = 0;
  std::vector<std::size_t> counts_, offsets_;  // by item
  LongArray<std::int8_t> block_;
  mutable std::vector<float> scales_;  // (items, samples)
};

/// Bytes of a workspace's block and scales, without making one.
std::size_t workspace_bytes(const Plan& plan, std::size_t samples, Pass pass);

/// Of a workspace for training, bytes of what the forward pass leaves to the backward pass.
std::size_t saved_bytes(const Plan& plan, std::size_t samples);

}  // namespace eqt::model::precision
