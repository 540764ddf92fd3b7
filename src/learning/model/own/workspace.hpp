// SPDX-License-Identifier: Apache-2.0
// The operands that a pass through a network keeps, in one block of memory: 8-bit integers, or
// floats, whose scales are 1. Arrays that are needed at different times share places in it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/own/plan.hpp"

namespace eqt::model::precision {

inline constexpr std::size_t kArenaAlignment = 64;  // [bytes]

struct ArenaItem {
  std::size_t bytes = 0;
  int first = 0, last = 0;  // moments at which it is in use, both included
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  // by item, multiples of kArenaAlignment
  std::size_t bytes = 0;             // in all
};

/// The largest item first, each at the lowest place where no item of overlapping moments is.
ArenaPlan place_items(const std::vector<ArenaItem>& items);

/// Operands of consecutive samples, with a scale for each.
template <typename Operand>
struct Samples {
  std::span<Operand> values;  // (n, count)
  std::span<float> scales;    // (n)
  std::size_t count = 0;      // values of a sample

  Samples part(std::size_t first, std::size_t n) const {
    return {values.subspan(first * count, n * count), scales.subspan(first, n), count};
  }
  std::span<Operand> sample(std::size_t i) const { return values.subspan(i * count, count); }
};

enum class Pass { training, evaluation };

/// In training, values of a node that are computed from branches alone are computed again for the
/// backward pass, so that they need not be kept. Of a node in front of all parameters that are
/// trained they are kept if a layer that is trained reads them, for its branches are not. Returns
/// the node, this or a later one, whose error is computed next; empty: the values are kept, or read
/// by no backward pass.
std::optional<int> computed_again_for(const Plan& plan, int node);

template <typename Operand>
class Workspace {
 public:
  Workspace() = default;
  /// Lays out the values of up to `samples` samples. Training also keeps what the backward pass
  /// reads.
  Workspace(const Plan& plan, std::size_t samples, Pass pass);

  std::size_t samples() const { return samples_; }
  std::size_t bytes() const { return bytes_; }  // of the block
  /// Sets where the values are from now on. @param block  (bytes())
  void set_block(std::byte* block) { block_ = block; }

  using Samples = precision::Samples<Operand>;
  Samples node(int i) const { return at(index(i), index(i)); }
  /// A node whose values are computed again, with the scales that it had.
  Samples again(int i) const { return at(2 * nodes_ + branches_ + index(i), index(i)); }
  /// The input of the branch's normalization.
  Samples branch(int i) const { return at(nodes_ + index(i)); }
  /// The error of a node. @pre training
  Samples error(int i) const { return at(nodes_ + branches_ + index(i)); }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  Samples at(std::size_t item) const { return at(item, item); }
  Samples at(std::size_t item, std::size_t scales) const;

  std::size_t samples_ = 0, nodes_ = 0, branches_ = 0, bytes_ = 0;
  std::vector<std::size_t> counts_, offsets_;  // by item
  std::byte* block_ = nullptr;
  mutable std::vector<float> scales_;  // (items, samples)
};

/// Bytes of a workspace's block, and of its scales.
struct WorkspaceBytes {
  std::size_t block = 0, scales = 0;
};
template <typename Operand>
WorkspaceBytes workspace_bytes(const Plan& plan, std::size_t samples, Pass pass);

/// Returns the bytes that the forward pass leaves to the backward pass in a workspace for training.
template <typename Operand>
std::size_t saved_bytes(const Plan& plan, std::size_t samples);

}  // namespace eqt::model::precision
