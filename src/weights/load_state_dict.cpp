// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "core/to_float.hpp"
#include "weights/state_dict.hpp"

namespace eqt::weights {
namespace {

/// "[16, 3, 3, 3]"
std::string shape_text(std::span<const std::int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

bool may_be_missing(std::string_view name, const FileNames& names) {
  return name.ends_with("num_batches_tracked") || (names.optional && names.optional(name));
}

/// [bytes] Far above the size of a file of these tensors: float64 with two moments of an optimizer.
std::uintmax_t largest_file(std::span<const Target> targets) {
  constexpr std::uintmax_t kPerValue = 32, kPerTensor = 8192, kAside = 1 << 20;
  std::uintmax_t bytes = kAside;
  for (const Target& target : targets) bytes += kPerTensor + kPerValue * elements_of(target.sizes);
  return bytes;
}

bool is_floating(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16 ||
         type == ElementType::float32 || type == ElementType::float64;
}

template <typename From, typename Convert>
std::vector<std::byte> converted(std::span<const std::byte> bytes, const Convert& to_float) {
  std::vector<std::byte> out(bytes.size() / sizeof(From) * sizeof(float));
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From from;
    std::memcpy(&from, bytes.data() + i * sizeof from, sizeof from);
    const float value = to_float(from);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

std::vector<std::byte> as_float32(std::vector<std::byte> bytes, ElementType type) {
  switch (type) {
    case ElementType::float16:
      return converted<std::uint16_t>(bytes, half_to_float);
    case ElementType::bfloat16:
      return converted<std::uint16_t>(
          bytes, [](std::uint32_t bits) { return std::bit_cast<float>(bits << 16); });
    case ElementType::float64:
      return converted<double>(bytes, double_to_float);
    default:
      return bytes;
  }
}

bool all_finite(std::span<const std::byte> floats) {
  for (std::size_t i = 0; i < floats.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, floats.data() + i, sizeof value);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

/// The file's values row by row in the target's type, if shape and type match.
std::vector<std::byte> fitting(const std::string& path, const Target& target, const Tensor& found) {
  if (target.sizes != found.sizes) {
    fail(Kind::data, "expected {} of shape {} in the weights file {}, found shape {}", target.name,
         shape_text(target.sizes), path, shape_text(found.sizes));
  }
  const bool floating = target.type == ElementType::float32;
  if (floating ? !is_floating(found.type) : found.type != target.type) {
    fail(Kind::data, "expected {} of type {} in the weights file {}, found {}", target.name,
         element_name(target.type), path, element_name(found.type));
  }
  std::vector<std::byte> values(elements_of(found.sizes) * element_bytes(found.type));
  copy_row_major(found, values);
  if (!floating) return values;
  values = as_float32(std::move(values), found.type);
  if (!all_finite(values)) {
    fail(Kind::data, "expected finite values of {} in the weights file {}, found infinity or NaN",
         target.name, path);
  }
  return values;
}

/// Whether the network's tensor keeps its values, since that of the file has another shape.
bool is_other(const Target& target, const Tensor& found, const FileNames& names) {
  return names.optional && names.optional(target.name) && target.sizes != found.sizes;
}

/// The new values of each target, in their order; empty: they do not change.
std::vector<std::vector<std::byte>> match(const std::string& path, std::span<const Target> targets,
                                          std::span<const Tensor> found, const FileNames& names) {
  std::map<std::string, const Tensor*, std::less<>> unused;
  for (const Tensor& tensor : found) {
    std::string own = names.own ? names.own(tensor.name) : std::string(tensor.name);
    if (own.empty()) continue;
    if (!unused.emplace(own, &tensor).second)
      fail(Kind::data, "expected one tensor for {} in the weights file {}, found two", own, path);
  }
  // The file's names are without wrappers; a network's own may look like these.
  std::vector<std::string_view> wanted;
  for (const Target& target : targets) wanted.emplace_back(target.name);
  if (!names.own) strip_wrappers(wanted);
  std::vector<std::vector<std::byte>> matched;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Target& target = targets[i];
    const auto source = unused.find(wanted[i]);
    if (source != unused.end()) {
      const bool other = is_other(target, *source->second, names);
      matched.push_back(other ? std::vector<std::byte>() : fitting(path, target, *source->second));
      unused.erase(source);
    } else if (may_be_missing(target.name, names)) {
      matched.emplace_back();
    } else {
      fail(Kind::data, "expected a tensor {} in the weights file {}, found none of that name",
           target.name, path);
    }
  }
  if (!unused.empty()) {
    fail(Kind::data,
         "expected weights of this network in the file {}, found a tensor {} that it does not "
         "have; check model.name, model.shortcut and model.normalization",
         path, printable(unused.begin()->first));
  }
  return matched;
}

}  // namespace

void load_state_dict(const std::string& path, std::span<const Target> targets,
                     const FileNames& names) {
  const StateDict file = read_state_dict(path, largest_file(targets));
  const auto values = match(path, targets, file.tensors(), names);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (!values[i].empty()) copy_from_row_major(values[i], targets[i]);
}

}  // namespace eqt::weights
