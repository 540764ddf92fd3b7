// SPDX-License-Identifier: Apache-2.0
// The names that a pickle of tensors may refer to. Private to this room.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weights/element_type.hpp"

namespace eqt::weights {

enum class Global : std::uint8_t {
  ordered_dict,
  tensor,     // a function that makes a tensor of (storage, offset, sizes, strides, ...)
  parameter,  // a function that makes a parameter of (tensor, ...)
  type_tag,   // a function that returns its first argument
  size,       // torch.Size, made of a tuple
  storage,    // a class of storages
};

struct KnownGlobal {
  std::string_view name;
  Global global;
  ElementType type = {};  // of a class of storages
};

/// Empty if the name is not accepted.
std::optional<KnownGlobal> find_global(std::string_view module, std::string_view name);

/// "FloatStorage", the class of torch for storages of this type.
std::string_view storage_class(ElementType type);

}  // namespace eqt::weights
