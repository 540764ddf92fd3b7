// SPDX-License-Identifier: Apache-2.0
// Weight files of LibTorch's tensors: a dict from names to tensors in the format of torch.save.

#pragma once

#include <torch/types.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weights/state_dict.hpp"

namespace eqt::model {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A further name of a tensor.
struct TiedName {
  std::string name, first;
};

/// The type of such elements in a file; none: files have no such type.
std::optional<weights::ElementType> file_type(at::ScalarType type);

/// The tensors, and each again under its further names. Names of no tensor are left out.
NamedTensors with_tied(NamedTensors tensors, std::span<const TiedName> tied);

/// Writes row-major copies under a temporary name, then renames.
/// @throws Error{output}
void write_weights(const std::string& path, const NamedTensors& tensors);

/// Reads the tensors from a file as weights::load_state_dict does.
/// @param tensors under all their names
/// @throws Error{data}
weights::LoadedNames read_weights(const std::string& path, const NamedTensors& tensors,
                                  std::span<const TiedName> tied,
                                  const weights::FileNames& names = {});

/// The tensors as they lie in memory; refers to names and values of `tensors`.
std::vector<weights::Tensor> described(const NamedTensors& tensors);

}  // namespace eqt::model
