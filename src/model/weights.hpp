// SPDX-License-Identifier: Apache-2.0
// Weight files: a dict from names to tensors in the format of Python's torch.save.

#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eqt::model {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes row-major copies under a temporary name, then renames.
/// @throws Error{output}
void write_weights(const std::string& path, const NamedTensors& tensors);

/// How the names in a file become those of a network.
struct FileNames {
  /// The network's name for a tensor of the file; "": it is skipped. No function: the same name.
  std::function<std::string(std::string_view)> own = {};
  /// Whether the file may lack a tensor of the network, or have another shape: it then keeps its
  /// values. No function: none may.
  std::function<bool(std::string_view)> optional = {};
};

/// Copies the values of a file that weights::read_state_dict takes into `tensors`, all of them or
/// none. Both sides must have the same names, except for what `names` says, and that the file may
/// lack counters named *num_batches_tracked.
/// @throws Error{data}
void read_weights(const std::string& path, const NamedTensors& tensors,
                  const FileNames& names = {});

}  // namespace eqt::model
