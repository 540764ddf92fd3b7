// SPDX-License-Identifier: Apache-2.0
// Pickles of tensors and of TorchScript modules: the few operations and names that these need, and
// no others.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/foreign_file.hpp"
#include "weights/state_dict.hpp"

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
    tensor,
    object,
    enumerator,
    other  // a device or a complex number
  };
  Kind kind = Kind::none;
  std::uint8_t global = 0;  // its index in pickle.cpp
  ElementType type = {};    // of a storage or of a storage's class
  std::int64_t number = 0;  // number, truth; of a storage, its elements
  // text; of a storage, its key; of a global, its name; of an object, an enumerator and a class of
  // a script, the class's module and name, with a line's end between them
  std::string_view text = {};
  // tuple, list; dict: keys and values alternating; tensor: its storage, offset, tuple of sizes,
  // tuple of strides; object: the dict of its attributes; enumerator: its number or text
  std::vector<ValueId> items = {};
};

/// "a tensor", "a number", ... for messages.
std::string_view kind_name(PickleValue::Kind kind) noexcept;

/// The contents of a pickle. Nothing is called or imported: only the names of tensors, storages,
/// parameters and OrderedDict are accepted, of a script also those of its own classes, of lists, of
/// devices and of complex numbers. A dict's attributes, such as a state dict's _metadata, are left
/// out. Values may refer to each other in circles.
///
/// Memory and time are linear in the bytes: at most some hundred thousand values, marks, memoised
/// values, and values on the stack, of a script some million.
///
/// What is accepted of a script means the same to LibTorch's reader, which checks less: its stack,
/// marks, memo and arguments are there and of the right kinds, and nothing follows the end.
///
/// Format: Python's Lib/pickletools.py, protocols 2 to 5; for the pickles of torch's classes,
/// torch/_utils.py; for scripts, protocol 2 as torch/csrc/jit/serialization/unpickler.cpp reads it.
class Pickle {
 public:
  /// The pickle that `bytes` begins with. Keeps references into `bytes`.
  /// @param file for messages, and what the pickle should hold
  /// @throws Error{data}
  Pickle(std::span<const std::byte> bytes, const ForeignFile& file);

  std::size_t bytes_used() const { return bytes_used_; }
  const PickleValue& root() const { return at(root_); }
  const PickleValue& at(ValueId id) const { return values_[id]; }
  std::span<const PickleValue> values() const { return values_; }

 private:
  std::vector<PickleValue> values_;
  ValueId root_ = 0;
  std::size_t bytes_used_ = 0;
};

/// "__torch__.torch.nn.Linear" of an object, an enumerator or a class of a script.
std::string class_name(const PickleValue& value);

/// Tells where a tensor's elements lie in its storage.
struct ElementPlaces {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // [elements], none negative
  std::int64_t offset = 0;            // [elements] of the first one

  /// True if all are among the storage's elements.
  bool lies_in(std::int64_t elements) const;
};
ElementPlaces places_of(const Pickle& pickle, const PickleValue& tensor);

/// The names that a pickle may refer to, by what they mean.
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

/// "FloatStorage", the class of torch for storages of this type.
std::string_view storage_class(ElementType type);

}  // namespace eqt::weights
