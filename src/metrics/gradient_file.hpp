// Gradients as files that any NumPy reads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/layout.hpp"

namespace eqt::metrics {

/// What a dumped gradient is.
struct GradientRecord {
  StepId step = 0;          // completed steps, that of the gradient included
  std::uint64_t epoch = 0;  // from 1
  Rank rank = 0;            // whose gradient
  std::size_t batch_size = 0;
};

/// Makes `path` an array file of NumPy, format version 1.0: one dimension of little-endian float32.
/// Whole or as before.
/// @throws Error{output}
void write_npy(const std::string& path, std::span<const float> values);

/// "step00000120.rank0": what the files of a gradient are called, without ending.
std::string gradient_file_stem(const GradientRecord& record);

/// Writes STEM.json (what the values are and which tensor has which of them), then STEM.npy, into
/// `folder`, so that whoever finds an array finds its layout.
/// @pre values.size() == total_count(layout)
/// @throws Error{output}
void write_gradient(const std::string& folder, const GradientRecord& record, const Layout& layout,
                    std::span<const float> values);

}  // namespace eqt::metrics
