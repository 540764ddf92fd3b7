// SPDX-License-Identifier: Apache-2.0
// Weight files of LibTorch's tensors: a dict from names to tensors in the format of torch.save.

#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "weights/state_dict.hpp"

namespace eqt::model {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes row-major copies under a temporary name, then renames.
/// @throws Error{output}
void write_weights(const std::string& path, const NamedTensors& tensors);

/// As weights::load_state_dict does.
/// @throws Error{data}
void read_weights(const std::string& path, const NamedTensors& tensors,
                  const weights::FileNames& names = {});

/// The tensors as they lie in memory; refers to names and values of `tensors`.
std::vector<weights::Tensor> described(const NamedTensors& tensors);

}  // namespace eqt::model
