// SPDX-License-Identifier: Apache-2.0
// This file says where each tensor lies in a flat buffer of float32 values, and how ranges of it
// are updated.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eqt {

using Rank = int;              // 0 <= rank < size, MPI's own type
using StepId = std::uint64_t;  // optimizer steps since the start of the run

/// One tensor inside a flat buffer. Values are in the tensor's memory order: row-major, except that
/// 4-D convolution kernels may be stored channels-last (out, kh, kw, in).
struct TensorSlice {
  std::string name;                 // "layer1.0.conv1.weight"
  std::vector<std::int64_t> shape;  // logical, e.g. {16, 16, 3, 3}
  std::size_t offset = 0;           // [floats]
  std::size_t count = 0;            // [floats]
};

/// The slices follow each other without gaps and overlap, in the order of the forward pass.
using Layout = std::vector<TensorSlice>;

/// Number of values that a layout spans [floats].
inline std::size_t total_count(const Layout& layout) {
  return layout.empty() ? 0 : layout.back().offset + layout.back().count;
}

/// "model" for a slice that stands for all tensors.
inline std::string slice_name(const Layout& layout, std::uint32_t slice) {
  return slice < layout.size() ? layout[slice].name : "model";
}

/// Tells how the values of a range of the flat buffer are updated.
struct UpdateRule {
  std::size_t begin = 0, end = 0;  // [values]
  float rate_factor = 1;           // of the learning rate
  double weight_decay = 0;
  std::optional<float> momentum = {};  // sgd, muon: in place of the optimizer's
  bool orthogonal = true;              // muon: matrices are made orthogonal
};
/// The rules follow each other without gaps, and cover all values.
using UpdateRules = std::vector<UpdateRule>;

}  // namespace eqt
