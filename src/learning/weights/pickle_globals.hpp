// SPDX-License-Identifier: Apache-2.0
// The names that a pickle may refer to. Private to this room.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weights/element_type.hpp"
#include "weights/refuse.hpp"

namespace eqt::weights {

enum class Global : std::uint8_t {
  ordered_dict,
  tensor,        // a function that makes a tensor of (storage, offset, sizes, strides, ...)
  parameter,     // a function that makes a parameter of (tensor, ...)
  type_tag,      // a function that returns its first argument
  size,          // torch.Size, made of a tuple
  storage,       // a class of storages
  typed_list,    // a function that returns its argument, a list
  device,        // torch.device, made of a text
  complex,       // a complex number, made of two floating-point numbers
  script_class,  // a class of the archive's own code
};

struct KnownGlobal {
  std::string_view name;
  Global global;
  ElementType type = {};  // of a class of storages
};

/// Empty if the name is not accepted in such a file. Classes of the archive's own code are not
/// found here.
std::optional<KnownGlobal> find_global(std::string_view module, std::string_view name, Holds holds);

/// "FloatStorage", the class of torch for storages of this type.
std::string_view storage_class(ElementType type);

}  // namespace eqt::weights
