// SPDX-License-Identifier: Apache-2.0
// Writes gradients as NumPy files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/layout.hpp"

namespace eqt::metrics {

/// Step, epoch and rank of a dumped gradient.
struct GradientRecord {
  StepId step = 0;          // completed steps, including that of the gradient
  std::uint64_t epoch = 0;  // from 1
  Rank rank = 0;            // whose gradient
  std::size_t batch_size = 0;
};

/// Writes `path` as an array file of NumPy, format version 1.0: one dimension of little-endian
/// float32. After a failure it is unchanged.
/// @throws Error{output}
void write_npy(const std::string& path, std::span<const float> values);

/// "step00000120.rank0": the name of a gradient's files, without ending.
std::string gradient_file_stem(const GradientRecord& record);

/// Writes STEM.json (what the values are, and the range of each tensor), then STEM.npy, into
/// `folder`. In this order an array always has its layout.
/// @pre values.size() == total_count(layout)
/// @throws Error{output}
void write_gradient(const std::string& folder, const GradientRecord& record, const Layout& layout,
                    std::span<const float> values);

}  // namespace eqt::metrics
