// SPDX-License-Identifier: Apache-2.0
// Pickles of tensors: the few operations and names that weights need, and no others.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/element_type.hpp"

namespace eqt::weights {

/// A value's place in a Pickle.
using ValueId = std::uint32_t;

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    truth,
    number,
    real,
    text,
    tuple,
    list,
    dict,
    global,
    storage,
    tensor
  };
  Kind kind = Kind::none;
  std::uint8_t global = 0;          // its index in pickle.cpp
  ElementType type = {};            // of a storage or of a storage's class
  std::int64_t number = 0;          // number, truth; of a storage, its elements
  std::string_view text = {};       // text; of a storage, its key; of a global, its name
  std::vector<ValueId> items = {};  // tuple, list; dict: keys and values alternating; tensor: its
                                    // storage, offset, tuple of sizes, tuple of strides
};

/// "a tensor", "a number", ... for messages.
std::string_view kind_name(PickleValue::Kind kind) noexcept;

/// The contents of a pickle. Nothing is called or imported: only the names of tensors, storages,
/// parameters and OrderedDict are accepted. A dict's attributes, such as a state dict's _metadata,
/// are left out. Values may refer to each other in circles.
///
/// Memory and time are linear in the bytes: at most some hundred thousand values, marks, memoised
/// values, and values on the stack.
///
/// Format: Python's Lib/pickletools.py, protocols 2 to 5; for the pickles of torch's classes,
/// torch/_utils.py.
class Pickle {
 public:
  /// The pickle that `bytes` begins with. Keeps references into `bytes`.
  /// @param path for messages
  /// @throws Error{data}
  Pickle(std::span<const std::byte> bytes, const std::string& path);

  std::size_t bytes_used() const { return bytes_used_; }
  const PickleValue& root() const { return at(root_); }
  const PickleValue& at(ValueId id) const { return values_[id]; }
  std::span<const PickleValue> values() const { return values_; }

 private:
  std::vector<PickleValue> values_;
  ValueId root_ = 0;
  std::size_t bytes_used_ = 0;
};

}  // namespace eqt::weights
