// SPDX-License-Identifier: Apache-2.0
#include "model/weights.hpp"

#include <ATen/Functions.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "metrics/output_file.hpp"
#include "model/torch_errors.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {
namespace {

bool may_be_missing(std::string_view name, const FileNames& names) {
  return name.ends_with("num_batches_tracked") || (names.optional && names.optional(name));
}

/// Whether the network's tensor keeps its values, since that of the file has another shape.
bool is_other(const at::Tensor& wanted, std::string_view name, const weights::Tensor& found,
              const FileNames& names) {
  return names.optional && names.optional(name) && wanted.sizes() != at::IntArrayRef(found.sizes);
}

/// [bytes] Far above the size of a file of these tensors: float64 with two moments of an optimizer.
std::uintmax_t largest_file(const NamedTensors& tensors) {
  constexpr std::uintmax_t kPerValue = 32, kPerTensor = 8192, kAside = 1 << 20;
  std::uintmax_t bytes = kAside;
  for (const auto& [name, tensor] : tensors)
    bytes += kPerTensor + kPerValue * static_cast<std::uintmax_t>(tensor.numel());
  return bytes;
}

at::ScalarType scalar_type(weights::ElementType type) {
  using Type = weights::ElementType;
  switch (type) {
    case Type::float16:
      return at::kHalf;
    case Type::bfloat16:
      return at::kBFloat16;
    case Type::float32:
      return at::kFloat;
    case Type::float64:
      return at::kDouble;
    case Type::uint8:
      return at::kByte;
    case Type::int8:
      return at::kChar;
    case Type::int16:
      return at::kShort;
    case Type::int32:
      return at::kInt;
    case Type::int64:
      return at::kLong;
    case Type::boolean:
      return at::kBool;
  }
  fail(Kind::bug, "expected a type of elements, found {}", static_cast<int>(type));
}

/// The file's tensor as a LibTorch tensor, if shape and type match the wanted one.
at::Tensor fitting(const std::string& path, const std::string& name, const at::Tensor& wanted,
                   const weights::Tensor& found) {
  if (wanted.sizes() != at::IntArrayRef(found.sizes)) {
    fail(Kind::data, "expected {} of shape {} in the weights file {}, found shape {}", name,
         c10::str(wanted.sizes()), path, c10::str(at::IntArrayRef(found.sizes)));
  }
  const at::ScalarType type = scalar_type(found.type);
  const bool same_kind = at::isFloatingType(wanted.scalar_type()) ? at::isFloatingType(type)
                                                                  : type == wanted.scalar_type();
  if (!same_kind) {
    fail(Kind::data, "expected {} of type {} in the weights file {}, found {}", name,
         c10::toString(wanted.scalar_type()), path, weights::element_name(found.type));
  }
  at::Tensor values = at::empty(found.sizes, type);
  weights::copy_row_major(found, {static_cast<std::byte*>(values.data_ptr()), values.nbytes()});
  if (!at::isfinite(values).all().item<bool>()) {
    fail(Kind::data, "expected finite values of {} in the weights file {}, found infinity or NaN",
         name, path);
  }
  return values;
}

/// The new value of each of `wanted`, in their order; undefined: it does not change.
std::vector<at::Tensor> match(const std::string& path, const NamedTensors& wanted,
                              std::span<const weights::Tensor> found, const FileNames& names) {
  std::map<std::string, const weights::Tensor*, std::less<>> unused;
  for (const weights::Tensor& tensor : found) {
    std::string own = names.own ? names.own(tensor.name) : std::string(tensor.name);
    if (own.empty()) continue;
    if (!unused.emplace(own, &tensor).second)
      fail(Kind::data, "expected one tensor for {} in the weights file {}, found two", own, path);
  }
  std::vector<at::Tensor> matched;
  for (const auto& [name, tensor] : wanted) {
    const auto source = unused.find(name);
    if (source != unused.end()) {
      const bool other = is_other(tensor, name, *source->second, names);
      matched.push_back(other ? at::Tensor() : fitting(path, name, tensor, *source->second));
      unused.erase(source);
    } else if (may_be_missing(name, names)) {
      matched.emplace_back();
    } else {
      fail(Kind::data, "expected a tensor {} in the weights file {}, found none of that name", name,
           path);
    }
  }
  if (!unused.empty()) {
    fail(Kind::data,
         "expected weights of this network in the file {}, found a tensor {} that it does not "
         "have; check model.name, model.shortcut and model.normalization",
         path, weights::printable(unused.begin()->first));
  }
  return matched;
}

/// The archive that torch.save would write of a dict of these tensors. torch::pickle_save() marks
/// the dict's type with a function that torch.load(weights_only=True) does not call.
std::string packed(const c10::Dict<std::string, at::Tensor>& tensors) {
  std::string pickle;
  std::vector<std::string> keys;  // of storages
  torch::jit::Pickler pickler(
      [&](const char* bytes, std::size_t count) { pickle.append(bytes, count); }, nullptr, nullptr,
      nullptr, [&](const at::Tensor&) { return keys.emplace_back(std::to_string(keys.size())); },
      /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(tensors);
  pickler.stop();
  EQT_CHECK(keys.size() == pickler.tensorData().size(), "{} names for {} tensors", keys.size(),
            pickler.tensorData().size());
  std::string archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, std::size_t count) {
    archive.append(static_cast<const char*>(bytes), count);
    return count;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const at::Tensor& tensor = pickler.tensorData()[i];
    writer.writeRecord("data/" + keys[i], tensor.data_ptr(), tensor.nbytes());
  }
  writer.writeEndOfFile();
  return archive;
}

}  // namespace

void write_weights(const std::string& path, const NamedTensors& tensors) {
  c10::Dict<std::string, at::Tensor> dict;
  for (const auto& [name, tensor] : tensors) {
    // A copy with its own storage, since a view would keep the whole flat buffer.
    dict.insert(name, tensor.detach().clone(at::MemoryFormat::Contiguous));
  }
  metrics::write_atomically(path, guarded("packing the weights", [&] { return packed(dict); }));
}

void read_weights(const std::string& path, const NamedTensors& tensors, const FileNames& names) {
  guarded("reading the weights", [&] {
    const weights::StateDict file = weights::read_state_dict(path, largest_file(tensors));
    const std::vector<at::Tensor> values = match(path, tensors, file.tensors(), names);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      at::Tensor tensor = tensors[i].second;
      if (values[i].defined()) tensor.copy_(values[i]);
    }
  });
}

}  // namespace eqt::model
