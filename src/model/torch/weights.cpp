// SPDX-License-Identifier: Apache-2.0
#include "model/torch/weights.hpp"

#include <ATen/Functions.h>

#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "metrics/output_file.hpp"
#include "model/torch/torch_errors.hpp"

namespace eqt::model {
namespace {

weights::ElementType element_type(std::string_view name, at::ScalarType type) {
  EQT_CHECK(type == at::kFloat || type == at::kLong, "{} is of type {}", name, c10::toString(type));
  return type == at::kFloat ? weights::ElementType::float32 : weights::ElementType::int64;
}

/// [bytes] from the tensor's first element to its last.
std::size_t reach_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(last + 1) * static_cast<std::size_t>(tensor.element_size());
}

}  // namespace

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

void read_weights(const std::string& path, const NamedTensors& tensors,
                  const weights::FileNames& names) {
  std::vector<weights::Target> targets;
  for (const auto& [name, tensor] : tensors) {
    targets.push_back({.name = name,
                       .type = element_type(name, tensor.scalar_type()),
                       .sizes = tensor.sizes().vec(),
                       .strides = tensor.strides().vec(),
                       .storage = {static_cast<std::byte*>(tensor.data_ptr()), reach_of(tensor)}});
  }
  weights::load_state_dict(path, targets, names);
}

}  // namespace eqt::model
