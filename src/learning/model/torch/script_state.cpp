// SPDX-License-Identifier: Apache-2.0
#include "model/torch/script_state.hpp"

#include <ATen/core/class_type.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/error.hpp"

namespace eqt::model {
namespace {

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl()) return true;
  return a.numel() > 0 && a.data_ptr() == b.data_ptr() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

/// "layer.calls" for a value that the code reads from self; "" for self; none for others.
std::optional<std::string> path_from_self(const torch::jit::Value* value,
                                          const torch::jit::Value* self) {
  std::string path;
  for (; value != self; value = value->node()->input(0)) {
    const torch::jit::Node* const node = value->node();
    if (node->kind() != c10::prim::GetAttr) return {};
    const std::string& name = node->s(c10::attr::name);
    path = path.empty() ? name : fmt::format("{}.{}", name, path);
  }
  return path;
}

/// Adds the paths of attributes that the code assigns, or whose lists and dicts it changes.
void find_changes(const torch::jit::Block& block, const torch::jit::Value* self,
                  std::set<std::string>& paths) {
  for (const torch::jit::Node* const node : block.nodes()) {
    for (const torch::jit::Block* const inner : node->blocks()) find_changes(*inner, self, paths);
    if (node->kind() == c10::prim::SetAttr) {
      const std::string& name = node->s(c10::attr::name);
      if (const auto owner = path_from_self(node->input(0), self))
        paths.insert(owner->empty() ? name : *owner + "." + name);
      continue;
    }
    const c10::FunctionSchema* const schema = node->maybeSchema();
    if (schema == nullptr) continue;
    const std::size_t arguments = std::min(schema->arguments().size(), node->inputs().size());
    for (std::size_t i = 0; i < arguments; ++i) {
      const c10::AliasInfo* const alias = schema->arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      if (const auto path = path_from_self(node->input(i), self)) paths.insert(*path);
    }
  }
}

std::set<std::string> changes_of_forward(const torch::jit::Module& module) {
  std::set<std::string> paths;
  const auto method = module.find_method("forward");
  if (!method) return paths;
  const auto graph = method->graph()->copy();
  torch::jit::Inline(*graph);
  if (!graph->inputs().empty()) find_changes(*graph->block(), graph->inputs()[0], paths);
  return paths;
}

}  // namespace

ScriptState::ScriptState(const torch::jit::Module& module) {
  std::vector<Attribute> parameters, others;
  collect(module._ivalue(), "", parameters, others);
  for (const Attribute& attribute : parameters) add(attribute, parameters_);
  for (Attribute& attribute : buffer_attributes_) {
    add(attribute, buffers_);
    attribute.tensor = attribute.object->getSlot(attribute.slot).toTensor();
  }
  for (const auto& [name, tensor] : buffers_) {
    at::Tensor handle = tensor;
    if (!tensor.is_non_overlapping_and_dense() || tensor.storage_offset() != 0)
      handle.set_data(tensor.clone(at::MemoryFormat::Contiguous));
  }
  const std::set<std::string> paths = changes_of_forward(module);
  for (Attribute& attribute : others)
    if (paths.contains(attribute.name)) changed_.push_back(std::move(attribute));
}

/// The order is that of module.named_parameters() and named_buffers().
void ScriptState::collect(const c10::intrusive_ptr<c10::ivalue::Object>& object,
                          const std::string& prefix, std::vector<Attribute>& parameters,
                          std::vector<Attribute>& others) {
  const c10::ClassTypePtr type = object->type();
  for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const c10::TypePtr held = type->getAttribute(slot);
    const at::IValue& value = object->getSlot(slot);
    Attribute attribute{
        .object = object, .slot = slot, .name = prefix + type->getAttributeName(slot)};
    if (held->is_module()) {
      collect(value.toObject(), attribute.name + ".", parameters, others);
    } else if (value.isTensor() && value.toTensor().defined() &&
               (type->is_parameter(slot) || held->isSubtypeOf(*c10::TensorType::get()))) {
      attribute.tensor = value.toTensor();
      (type->is_parameter(slot) ? parameters : buffer_attributes_).push_back(std::move(attribute));
    } else {
      others.push_back(std::move(attribute));
    }
  }
}

/// A tensor that there is already becomes what the attribute has.
void ScriptState::add(const Attribute& attribute, NamedTensors& list) {
  for (const NamedTensors* const known : {&parameters_, &buffers_}) {
    const auto found = std::ranges::find_if(
        *known, [&](const auto& item) { return same_memory(item.second, attribute.tensor); });
    if (found == known->end()) continue;
    if (found->first != attribute.name) tied_names_.push_back({attribute.name, found->first});
    attribute.object->setSlot(attribute.slot, found->second);
    return;
  }
  list.emplace_back(attribute.name, attribute.tensor);
}

std::vector<std::string> ScriptState::changed_attributes() const {
  std::vector<std::string> names;
  for (const Attribute& attribute : changed_) names.push_back(attribute.name);
  return names;
}

void ScriptState::copy_assigned() {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<const Attribute*, at::Tensor>> assigned;
  for (const Attribute& attribute : buffer_attributes_) {
    const at::Tensor& value = attribute.object->getSlot(attribute.slot).toTensor();
    if (value.unsafeGetTensorImpl() == attribute.tensor.unsafeGetTensorImpl()) continue;
    if (value.sizes() != attribute.tensor.sizes() ||
        value.scalar_type() != attribute.tensor.scalar_type())
      fail(Kind::data,
           "expected a network that keeps the shapes of its buffers, but of {} it makes {} of "
           "shape {} out of {} of shape {}; assign tensors of the same shape and type",
           attribute.name, c10::toString(value.scalar_type()), c10::str(value.sizes()),
           c10::toString(attribute.tensor.scalar_type()), c10::str(attribute.tensor.sizes()));
    // A copy, since it may be another buffer, which changes as well.
    assigned.emplace_back(&attribute, value.detach().clone());
  }
  for (const auto& [attribute, value] : assigned) {
    at::Tensor tensor = attribute->tensor;
    tensor.copy_(value);
    attribute->object->setSlot(attribute->slot, tensor);
  }
}

void ScriptState::keep() {
  kept_buffers_.clear();
  for (const auto& [name, tensor] : buffers_) kept_buffers_.push_back(tensor.detach().clone());
  kept_attributes_.clear();
  for (const Attribute& attribute : changed_)
    kept_attributes_.push_back(attribute.object->getSlot(attribute.slot).deepcopy());
}

void ScriptState::put_back() {
  const at::NoGradGuard no_grad;
  for (const Attribute& attribute : buffer_attributes_)
    attribute.object->setSlot(attribute.slot, attribute.tensor);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    at::Tensor tensor = buffers_[i].second;
    tensor.copy_(kept_buffers_[i]);
  }
  for (std::size_t i = 0; i < changed_.size(); ++i)
    changed_[i].object->setSlot(changed_[i].slot, kept_attributes_[i]);
}

}  // namespace eqt::model
