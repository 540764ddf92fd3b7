// SPDX-License-Identifier: Apache-2.0
// A file of weights: named tensors. Every byte is checked. No torch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/element_type.hpp"

namespace eqt::weights {

struct Tensor {
  std::string_view name;
  ElementType type = {};
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;   // [elements], none negative
  std::int64_t offset = 0;             // [elements] of the first one in the storage
  std::span<const std::byte> storage;  // contains all elements
};

/// Writes the elements row by row. @pre out has exactly their size
void copy_row_major(const Tensor& tensor, std::span<std::byte> out);

/// A name from a file, made safe for a terminal: ASCII and short.
std::string printable(std::string_view text);

/// A safetensors file, or one that torch.save wrote: a dict of tensors, a state dict with its
/// metadata, or a dict that has one under `state_dict`, `model_state_dict` or `model`; as a zip
/// archive or in the format before torch 1.6. A prefix `module.` or `_orig_mod.` that all names
/// have, from DistributedDataParallel or torch.compile, is left out.
class StateDict {
 public:
  /// @param path for messages
  /// @throws Error{data} of one sentence
  StateDict(std::vector<std::byte> file, const std::string& path);

  /// In the file's order, each name once; valid as long as this object exists.
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::shared_ptr<const void> file_;  // what the tensors refer to
  std::vector<Tensor> tensors_;
};

/// @param most_bytes a longer file is refused before it is read
/// @throws Error{data}
StateDict read_state_dict(const std::string& path, std::uintmax_t most_bytes);

}  // namespace eqt::weights
