// SPDX-License-Identifier: Apache-2.0
#include "model/torch/weights.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "metrics/output_file.hpp"
#include "model/torch/torch_errors.hpp"

namespace eqt::model {
namespace {

weights::ElementType element_type(std::string_view name, at::ScalarType type) {
  const auto known = file_type(type);
  EQT_CHECK(known.has_value(), "{} is of type {}", name, c10::toString(type));
  return *known;
}

/// [bytes] from the tensor's first element to its last.
std::size_t reach_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(last + 1) * static_cast<std::size_t>(tensor.element_size());
}

}  // namespace

std::optional<weights::ElementType> file_type(at::ScalarType type) {
  using weights::ElementType;
  switch (type) {
    case at::kHalf:
      return ElementType::float16;
    case at::kBFloat16:
      return ElementType::bfloat16;
    case at::kFloat:
      return ElementType::float32;
    case at::kDouble:
      return ElementType::float64;
    case at::kByte:
      return ElementType::uint8;
    case at::kChar:
      return ElementType::int8;
    case at::kShort:
      return ElementType::int16;
    case at::kInt:
      return ElementType::int32;
    case at::kLong:
      return ElementType::int64;
    case at::kBool:
      return ElementType::boolean;
    default:
      return {};
  }
}

NamedTensors with_tied(NamedTensors tensors, std::span<const TiedName> tied) {
  const std::size_t firsts = tensors.size();
  for (const TiedName& further : tied) {
    for (std::size_t i = 0; i < firsts; ++i) {
      if (tensors[i].first != further.first) continue;
      tensors.emplace_back(further.name, tensors[i].second);
      break;
    }
  }
  return tensors;
}

std::vector<weights::Tensor> described(const NamedTensors& tensors) {
  std::vector<weights::Tensor> all;
  for (const auto& [name, tensor] : tensors) {
    all.push_back(
        {.name = name,
         .type = element_type(name, tensor.scalar_type()),
         .sizes = tensor.sizes().vec(),
         .strides = tensor.strides().vec(),
         .offset = 0,
         .storage = {static_cast<const std::byte*>(tensor.data_ptr()), reach_of(tensor)}});
  }
  return all;
}

void write_weights(const std::string& path, const NamedTensors& tensors) {
  metrics::write_atomically(path, weights::pack_state_dict(described(tensors)));
}

weights::LoadedNames read_weights(const std::string& path, const NamedTensors& tensors,
                                  std::span<const TiedName> tied, const weights::FileNames& names) {
  std::vector<weights::Target> targets;
  for (const auto& [name, tensor] : tensors) {
    targets.push_back({.name = name,
                       .type = element_type(name, tensor.scalar_type()),
                       .sizes = tensor.sizes().vec(),
                       .strides = tensor.strides().vec(),
                       .storage = {static_cast<std::byte*>(tensor.data_ptr()), reach_of(tensor)}});
    const auto found = std::ranges::find(tied, name, &TiedName::name);
    if (found != tied.end()) targets.back().tied_to = found->first;
  }
  return weights::load_state_dict(path, targets, names);
}

}  // namespace eqt::model
