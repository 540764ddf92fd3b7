// SPDX-License-Identifier: Apache-2.0
// A network of the user's own is a TorchScript module, and so a program: what it may do, and what
// it keeps from one forward pass to the next. Private to this room.

#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <string>
#include <vector>

#include "model/torch/weights.hpp"

namespace eqt::model {

/// Looks at every operation of every function and method that came with the module, of its hooks,
/// submodules and nested blocks, before any of them runs.
///
/// Accepted are the operators of the namespaces `aten` and `prim`, which compute, without those
/// that reach beyond the process: files (save, from_file), Python, other processes (rpc_*). All
/// other namespaces are refused (c10d, rpc, quantized, those of libraries): a list of what is
/// allowed stays right when LibTorch gets new ones. Also refused are attributes that do not have
/// the type that the code says, and casts between classes, for with either LibTorch would read
/// memory that is not the object's; and functions that have more than a million operations with
/// those that they call.
///
/// This is no sandbox: what is accepted may still compute for ever, take all memory, or use a fault
/// of LibTorch's operators.
/// @param path for messages
/// @throws Error{data} with the operator and the line of the code in the archive
void require_computing_only(const torch::jit::Module& module, const std::string& path);

/// From now on print() in modules writes to standard error, in printable characters: standard
/// output belongs to the verbs' results.
void move_prints_of_modules();

/// Keeps the state of a module. Its tensors stay in their attributes for good: what its code
/// assigns to such an attribute is copied into the tensor.
class ScriptState {
 public:
  /// Attributes with the same memory get the same tensor. Buffers that are parts of other tensors,
  /// or repeat values, get memory of their own.
  explicit ScriptState(const torch::jit::Module& module);

  // In the module's order, each tensor under its first name; a parameter is no buffer as well.
  const NamedTensors& parameters() const { return parameters_; }
  const NamedTensors& buffers() const { return buffers_; }
  const std::vector<TiedName>& tied_names() const { return tied_names_; }
  /// Names of the attributes without a tensor that the method forward changes.
  std::vector<std::string> changed_attributes() const;

  /// Called after a step.
  /// @throws Error{data} for a tensor of another shape or type
  void copy_assigned();
  /// keep() before an evaluation and put_back() after it: buffers and attributes are as they were.
  void keep();
  void put_back();

 private:
  struct Attribute {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    std::size_t slot = 0;
    std::string name;
    at::Tensor tensor = {};  // undefined for one that forward() changes but that has no tensor
  };

  void collect(const c10::intrusive_ptr<c10::ivalue::Object>& object, const std::string& prefix,
               std::vector<Attribute>& parameters, std::vector<Attribute>& others);
  void add(const Attribute& attribute, NamedTensors& list);

  NamedTensors parameters_, buffers_;
  std::vector<TiedName> tied_names_;
  std::vector<Attribute> buffer_attributes_, changed_;
  std::vector<at::Tensor> kept_buffers_;     // by buffer
  std::vector<at::IValue> kept_attributes_;  // by changed_
};

}  // namespace eqt::model
