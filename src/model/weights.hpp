// SPDX-License-Identifier: Apache-2.0
// Weight files: a dict from names to tensors in the format of Python's torch.save.

#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

namespace eqt::model {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes row-major copies under a temporary name, then renames.
/// @throws Error{output}
void write_weights(const std::string& path, const NamedTensors& tensors);

/// Copies the values of a file that weights::read_state_dict takes into `tensors`, all of them or
/// none. Both sides must have the same names, except that the file may lack counters named
/// *num_batches_tracked.
/// @throws Error{data}
void read_weights(const std::string& path, const NamedTensors& tensors);

}  // namespace eqt::model
