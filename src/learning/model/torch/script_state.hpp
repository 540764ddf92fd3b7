// SPDX-License-Identifier: Apache-2.0
// What a TorchScript module keeps from one forward pass to the next. Private to this room.

#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <string>
#include <vector>

#include "model/torch/weights.hpp"

namespace eqt::model {

/// The module's tensors stay in their attributes for good: what its code assigns to such an
/// attribute is copied into the tensor.
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
