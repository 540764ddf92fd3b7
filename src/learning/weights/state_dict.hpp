// SPDX-License-Identifier: Apache-2.0
// A file of weights: named tensors. Every byte is checked. No torch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::weights {

/// The type of a tensor's elements in a file.
enum class ElementType : std::uint8_t {
  float16,
  bfloat16,
  float32,
  float64,
  uint8,
  int8,
  int16,
  int32,
  int64,
  boolean,
  complex64,
  complex128,
};

/// [bytes]
std::size_t element_bytes(ElementType type) noexcept;

/// "float32", the name in Python's torch.
std::string_view element_name(ElementType type) noexcept;

struct Tensor {
  std::string_view name;
  ElementType type = {};
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;   // [elements], none negative
  std::int64_t offset = 0;             // [elements] of the first one in the storage
  std::span<const std::byte> storage;  // contains all elements
};

std::size_t elements_of(std::span<const std::int64_t> sizes);

/// [elements] Of a tensor that lies row by row; a side of 0 counts as 1.
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> sizes);

/// Writes the elements row by row. @pre out has exactly their size
void copy_row_major(const Tensor& tensor, std::span<std::byte> out);

/// A network's tensor, which takes a file's values.
struct Target {
  std::string name;
  ElementType type = {};
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // [elements], none negative
  std::span<std::byte> storage;       // from the first element to the last
  std::string tied_to = {};           // another target's name for the same tensor; "": none
};

/// Gives the target the values, which come row by row. @pre values have exactly its size
void copy_from_row_major(std::span<const std::byte> values, const Target& target);

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

  /// The tensors in the file's order, each name once; valid as long as this object exists.
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::shared_ptr<const void> file_;  // what the tensors refer to
  std::vector<Tensor> tensors_;
};

/// @param most_bytes a longer file is refused before it is read
/// @throws Error{data}
StateDict read_state_dict(const std::string& path, std::uintmax_t most_bytes);

/// The bytes of the file that torch.save writes of a dict of these tensors, each row by row in a
/// storage of its own. It has nothing that torch.load(weights_only=True) refuses; equal tensors are
/// equal bytes.
std::string pack_state_dict(std::span<const Tensor> tensors);

/// Tells how the names in a file become those of a network.
struct FileNames {
  /// The network's name for a tensor of the file; "": it is skipped. No function: the same name.
  std::function<std::string(std::string_view)> own = {};
  /// Returns true where the file may lack a tensor of the network, which then keeps its values. No
  /// function: none may.
  std::function<bool(std::string_view)> optional = {};
  /// The network's outputs, of which the file's last layer may have another number: tensors of one
  /// layer whose first sides alone differ. 0: a file for another task is not expected.
  std::int64_t outputs = 0;
  /// Path and dot of the last layer, "fc.", which a file that has all else may lack; "": none.
  std::string last_layer = {};
  /// With `outputs`: such a last layer keeps its values; false: the file is refused.
  bool new_head = true;
  /// Returns true where `resized` may make one of the network's float32 tensors from the file's,
  /// whose sizes are others. No function: nowhere.
  std::function<bool(std::string_view name, std::span<const std::int64_t> sizes)> can_resize = {};
  /// Makes the values of such a tensor from the file's; nothing: it cannot. @pre can_resize
  std::function<std::optional<std::vector<float>>(
      std::string_view name, std::span<const std::int64_t> sizes, std::span<const float> values)>
      resized = {};
};

/// Names of the targets that did not get the file's values as they are.
struct LoadedNames {
  std::vector<std::string> kept;     // they keep their values
  std::vector<std::string> resized;  // FileNames::resized made theirs
};

/// Copies the values of a file that read_state_dict takes into `targets`, all of them or none.
/// float16, bfloat16 and float64 become float32. Both sides must have the same names, except for
/// what `names` says, for a beginning such as `model.` that all names of one side have, and that
/// the file may lack counters named *num_batches_tracked, and names of a tensor of which it has
/// another name. Where it has several, their values must be equal.
/// @throws Error{data}
LoadedNames load_state_dict(const std::string& path, std::span<const Target> targets,
                            const FileNames& names = {});

}  // namespace eqt::weights
