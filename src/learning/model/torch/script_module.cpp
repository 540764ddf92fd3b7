// SPDX-License-Identifier: Apache-2.0
#include "model/torch/script_module.hpp"

#include <ATen/core/class_type.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/print_handler.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/error.hpp"
#include "weights/script_archive.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {
namespace {

constexpr std::uint64_t kMostOperations = std::uint64_t{1} << 20;  // after inlining, of a function

/// Operators of `aten` and `prim` that reach beyond the process.
constexpr std::array<std::string_view, 7> kBeyond = {
    "aten::save",      "aten::from_file", "prim::PythonOp",  "prim::IgnoredPythonOp",
    "prim::rpc_async", "prim::rpc_sync",  "prim::rpc_remote"};

[[noreturn]] void refuse_program(const std::string& path, const std::string& reason) {
  fail(Kind::data,
       "expected a network that only computes in model.path {}, but {}; leave that out of the "
       "network",
       path, reason);
}

/// "in code/__torch__.py, line 7: torch.save(x, "file")"
std::string place_of(const torch::jit::SourceRange& range) {
  const auto place = range.file_line_col();
  if (!place) return "in its code";
  const auto& source = range.source();
  std::string line = source->get_line(source->lineno_for_offset(range.start())).str();
  line.erase(0, line.find_first_not_of(' '));
  line.erase(line.find_last_not_of(" \n") + 1);
  return fmt::format("in {}, line {}: {}", weights::printable(std::get<0>(*place)),
                     std::get<1>(*place), weights::printable(line));
}

bool has_class(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::ClassType) return true;
  return std::ranges::any_of(type.containedTypes(),
                             [](const c10::TypePtr& inner) { return has_class(*inner); });
}

class GraphWalk {
 public:
  explicit GraphWalk(const std::string& path) : path_(path) {}

  /// Its operations with those of all that it calls.
  std::uint64_t check(torch::jit::Function& function) {
    const auto [place, is_new] = operations_.emplace(&function, 1);
    if (!is_new) return place->second;  // of a function that calls itself, LibTorch says so
    torch::jit::GraphFunction* const graph = torch::jit::tryToGraphFunction(function);
    if (graph == nullptr)
      refuse_program(
          path_, "it calls " + weights::printable(function.name()) + ", which is not its own code");
    const std::uint64_t count = check(*graph->graph()->block());
    if (count > kMostOperations)
      refuse_program(path_,
                     fmt::format("with all that it calls, its {} has more than {} operations",
                                 weights::printable(function.name()), kMostOperations));
    return operations_[&function] = count;
  }

 private:
  std::uint64_t check(const torch::jit::Block& block) {
    std::uint64_t count = 0;
    for (const torch::jit::Node* const node : block.nodes()) {
      count += 1 + check(*node);
      if (count > kMostOperations) break;
    }
    return count;
  }

  /// The operations inside the node.
  std::uint64_t check(const torch::jit::Node& node) {
    const std::string name = node.kind().toQualString();
    const bool computes = (node.kind().is_aten() || node.kind().is_prim()) &&
                          std::ranges::find(kBeyond, name) == kBeyond.end();
    if (!computes)
      refuse_program(
          path_,
          fmt::format("it calls the operator {}, which may reach files or other processes, {}",
                      weights::printable(name), place_of(node.sourceRange())));
    if (node.kind() == c10::prim::unchecked_cast) check_cast(node);
    std::uint64_t count = 0;
    for (const torch::jit::Block* const block : node.blocks()) count += check(*block);
    for (const c10::Symbol attribute : node.attributeNames()) {
      if (node.kindOf(attribute) == torch::jit::AttributeKind::g)
        count += check(*node.g(attribute)->block());
      if (node.kindOf(attribute) == torch::jit::AttributeKind::gs)
        for (const auto& graph : node.gs(attribute)) count += check(*graph->block());
    }
    return count + called_by(node);
  }

  std::uint64_t called_by(const torch::jit::Node& node) {
    if (node.kind() == c10::prim::CallFunction) {
      if (const auto type = node.input(0)->type()->cast<c10::FunctionType>())
        return check(*type->function());
    } else if (node.kind() == c10::prim::CallMethod) {
      if (const auto type = node.input(0)->type()->cast<c10::ClassType>())
        if (auto* const method = type->findMethod(node.s(c10::attr::name))) return check(*method);
    }
    return 0;
  }

  /// LibTorch's own refinement of an optional value is one; the code could have others.
  void check_cast(const torch::jit::Node& node) const {
    const c10::TypePtr to = node.output()->type();
    if (!has_class(*to)) return;
    const auto optional = node.input(0)->type()->cast<c10::OptionalType>();
    if (optional && to->isSubtypeOf(*optional->getElementType())) return;
    refuse_program(path_, "it casts to a class without a check, " + place_of(node.sourceRange()));
  }

  const std::string& path_;
  std::unordered_map<const torch::jit::Function*, std::uint64_t> operations_;
};

/// Values as LibTorch has read them, against the types in the code.
class ValueWalk {
 public:
  explicit ValueWalk(const std::string& path) : path_(path) {}

  void check(const c10::ivalue::Object& object) {
    if (!seen_.insert(&object).second) return;
    const c10::ClassType& type = *object.type();
    if (object.slots().size() != type.numAttributes())
      weights::refuse_script(path_, "it has an object with other attributes than its class");
    for (std::size_t i = 0; i < type.numAttributes(); ++i) {
      if (fits(object.slots()[i], *type.getAttribute(i))) continue;
      weights::refuse_script(
          path_,
          fmt::format("its attribute {} is {} instead of {}",
                      weights::printable(type.getAttributeName(i)), object.slots()[i].tagKind(),
                      weights::printable(type.getAttribute(i)->annotation_str())));
    }
  }

 private:
  bool fits(const c10::IValue& value, const c10::Type& type) {
    if (value.isObject()) check(value.toObjectRef());
    switch (type.kind()) {
      case c10::TypeKind::AnyType:
        return fits_any(value);
      case c10::TypeKind::OptionalType:
        return value.isNone() || fits(value, *type.containedType(0));
      case c10::TypeKind::UnionType:
        return std::ranges::any_of(type.containedTypes(),
                                   [&](const c10::TypePtr& inner) { return fits(value, *inner); });
      case c10::TypeKind::NoneType:
        return value.isNone();
      case c10::TypeKind::TensorType:
        return value.isTensor();
      case c10::TypeKind::IntType:
        return value.isInt();
      case c10::TypeKind::FloatType:
        return value.isDouble();
      case c10::TypeKind::ComplexType:
        return value.isComplexDouble();
      case c10::TypeKind::NumberType:
        return value.isScalar();
      case c10::TypeKind::BoolType:
        return value.isBool();
      case c10::TypeKind::StringType:
        return value.isString();
      case c10::TypeKind::DeviceObjType:
        return value.isDevice();
      case c10::TypeKind::ListType:
        return value.isList() && fits_list(value, *type.containedType(0));
      case c10::TypeKind::DictType:
        return value.isGenericDict() && fits_dict(value, type);
      case c10::TypeKind::TupleType:
        return value.isTuple() && fits_tuple(value, type);
      case c10::TypeKind::EnumType:
        return value.isEnum() && value.toEnumHolder()->type()->isSubtypeOf(type);
      case c10::TypeKind::ClassType:
      case c10::TypeKind::InterfaceType:
        return value.isObject() && value.toObjectRef().type()->isSubtypeOf(type);
      default:
        return false;
    }
  }
  bool fits_list(const c10::IValue& value, const c10::Type& element) {
    for (const c10::IValue& item : value.toListRef())
      if (!fits(item, element)) return false;
    return true;
  }
  bool fits_dict(const c10::IValue& value, const c10::Type& type) {
    for (const auto& item : value.toGenericDict())
      if (!fits(item.key(), *type.containedType(0)) || !fits(item.value(), *type.containedType(1)))
        return false;
    return true;
  }
  bool fits_tuple(const c10::IValue& value, const c10::Type& type) {
    const auto& items = value.toTupleRef().elements();
    if (items.size() != type.containedTypes().size()) return false;
    for (std::size_t i = 0; i < items.size(); ++i)
      if (!fits(items[i], *type.containedType(i))) return false;
    return true;
  }
  /// The objects in it have types of their own.
  bool fits_any(const c10::IValue& value) {
    const c10::Type& any = *c10::AnyType::get();
    if (value.isList()) return fits_list(value, any);
    if (value.isTuple())
      return std::ranges::all_of(value.toTupleRef().elements(),
                                 [&](const c10::IValue& item) { return fits(item, any); });
    if (!value.isGenericDict()) return true;
    for (const auto& item : value.toGenericDict())
      if (!fits(item.value(), any)) return false;
    return true;
  }

  const std::string& path_;
  std::unordered_set<const c10::ivalue::Object*> seen_;
};

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

void require_computing_only(const torch::jit::Module& module, const std::string& path) {
  ValueWalk(path).check(*module._ivalue());
  GraphWalk walk(path);
  for (torch::jit::Function* const function : module._ivalue()->compilation_unit()->get_functions())
    walk.check(*function);
}

void move_prints_of_modules() {
  torch::jit::setPrintHandler([](const std::string& text) {
    const std::string_view line(text.data(), text.find_last_not_of('\n') + 1);
    fmt::print(stderr, "{}\n", weights::printable(line));
  });
}

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

/// Collects attributes in the order of module.named_parameters() and named_buffers().
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
