// SPDX-License-Identifier: Apache-2.0
// The safetensors format: tensors by name behind a header in JSON. Private to this room.
//
// Source   Hugging Face, safetensors, "Format": 8 bytes with the header's length N, little-endian;
//          N bytes of JSON, one object {NAME: {"dtype", "shape", "data_offsets": [begin, end]}},
//          with optional texts under "__metadata__"; then the tensors' bytes, little-endian, row by
//          row. Offsets count from the end of the header. Tensors leave no byte between them.

#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weights/state_dict.hpp"

namespace eqt::weights {

/// Returns true where a file begins as this format does, which none of torch.save's does.
bool is_safetensors(std::span<const std::byte> file);

struct Safetensors {
  std::vector<std::string> names;  // what the tensors' names refer to
  std::vector<Tensor> tensors;     // in the order of their bytes
};

/// Keeps references into `file`.
/// @param path for messages
/// @throws Error{data} for what the format does not allow: a header that is too long or no such
/// JSON, names that occur twice, types that are unknown here, lengths that do not fit the shape,
/// tensors that overlap, lie outside the file or leave bytes between them
Safetensors read_safetensors(std::span<const std::byte> file, const std::string& path);

/// The bytes of a file of these tensors, row by row, with `metadata` under "__metadata__". As in
/// Hugging Face's writer, wider types come first and the header is filled with blanks, so that the
/// values of each tensor lie at a multiple of their size; otherwise the order is the given one.
/// @pre names differ and are UTF-8, and none is "__metadata__"
std::string pack_safetensors(std::span<const Tensor> tensors,
                             const std::map<std::string, std::string>& metadata);

}  // namespace eqt::weights
