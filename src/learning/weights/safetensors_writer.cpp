// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "weights/safetensors.hpp"
#include "weights/safetensors_types.hpp"

namespace eqt::weights {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kAlignment = 8;  // [bytes] of the first tensor: the widest type

std::size_t bytes_of(const Tensor& tensor) {
  return elements_of(tensor.sizes) * element_bytes(tensor.type);
}

std::vector<const Tensor*> widest_first(std::span<const Tensor> tensors) {
  std::vector<const Tensor*> order;
  for (const Tensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const Tensor* tensor) { return element_bytes(tensor->type); });
  return order;
}

std::string header_of(std::span<const Tensor* const> order,
                      const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(kSafetensorsMetadata)] = metadata;
  std::size_t at = 0;
  for (const Tensor* tensor : order) {
    const std::size_t end = at + bytes_of(*tensor);
    Json& entry = header[std::string(tensor->name)];
    EQT_CHECK(entry.is_null(), "two tensors are called {}", tensor->name);
    entry = {{"dtype", safetensors_name(tensor->type)},
             {"shape", tensor->sizes},
             {"data_offsets", std::array{std::exchange(at, end), end}}};
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace

std::string pack_safetensors(std::span<const Tensor> tensors,
                             const std::map<std::string, std::string>& metadata) {
  const std::vector<const Tensor*> order = widest_first(tensors);
  const std::string header = header_of(order, metadata);
  std::string file;
  for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i)
    file += static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xFF);
  file += header;
  for (const Tensor* tensor : order) {
    const std::size_t at = file.size(), bytes = bytes_of(*tensor);
    file.resize(at + bytes);
    copy_row_major(*tensor, std::as_writable_bytes(std::span(file)).subspan(at, bytes));
  }
  return file;
}

}  // namespace eqt::weights
