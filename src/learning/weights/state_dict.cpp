// SPDX-License-Identifier: Apache-2.0
#include "weights/state_dict.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/error.hpp"
#include "core/to_float.hpp"
#include "core/whole_file.hpp"
#include "weights/foreign_file.hpp"
#include "weights/safetensors.hpp"
#include "weights/torch_file.hpp"

namespace eqt::weights {
namespace {

struct Facts {
  std::string_view name;
  std::size_t bytes;
};

// In the order of ElementType.
constexpr std::array<Facts, 12> kFacts = {{{"float16", 2},
                                           {"bfloat16", 2},
                                           {"float32", 4},
                                           {"float64", 8},
                                           {"uint8", 1},
                                           {"int8", 1},
                                           {"int16", 2},
                                           {"int32", 4},
                                           {"int64", 8},
                                           {"bool", 1},
                                           {"complex64", 8},
                                           {"complex128", 16}}};

}  // namespace

std::size_t element_bytes(ElementType type) noexcept {
  return kFacts[static_cast<std::size_t>(type)].bytes;
}

std::string_view element_name(ElementType type) noexcept {
  return kFacts[static_cast<std::size_t>(type)].name;
}

namespace {

using ValueKind = PickleValue::Kind;

constexpr std::size_t kMaxTensors = std::size_t{1} << 16;

std::string shown(const PickleValue& value) {
  if (value.kind == ValueKind::text) return fmt::format("\"{}\"", printable(value.text));
  return std::string(kind_name(value.kind));
}

/// The dict of tensors: the root, or one of its members with a usual name.
const PickleValue& find_dict(const Pickle& pickle, const std::string& path) {
  const PickleValue& root = pickle.root();
  if (root.kind != ValueKind::dict) refuse(path, "found {}", kind_name(root.kind));
  for (const std::string_view name : {"state_dict", "model_state_dict", "model"}) {
    for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
      const PickleValue& value = pickle.at(root.items[i + 1]);
      const PickleValue& key = pickle.at(root.items[i]);
      if (key.kind == ValueKind::text && key.text == name && value.kind == ValueKind::dict)
        return value;
    }
  }
  return root;
}

Tensor make_tensor(const TorchFile& file, std::string_view name, const PickleValue& value,
                   const std::string& path) {
  const Pickle& pickle = file.pickle();
  const PickleValue& storage = pickle.at(value.items[0]);
  ElementPlaces places = places_of(pickle, value);
  const bool inside = places.lies_in(storage.number);
  Tensor tensor{.name = name,
                .type = storage.type,
                .sizes = std::move(places.sizes),
                .strides = std::move(places.strides),
                .offset = places.offset,
                .storage = file.bytes_of(storage)};
  const std::size_t held = tensor.storage.size() / element_bytes(tensor.type);
  if (std::cmp_greater(storage.number, held) || !inside) {
    fail(Kind::data, "expected the whole of tensor {} in the weights file {}, found a part",
         printable(name), path);
  }
  return tensor;
}

std::vector<Tensor> tensors_of(const TorchFile& file, const std::string& path) {
  const Pickle& pickle = file.pickle();
  const PickleValue& dict = find_dict(pickle, path);
  std::vector<Tensor> tensors;
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = pickle.at(dict.items[i]);
    const PickleValue& value = pickle.at(dict.items[i + 1]);
    if (key.kind != ValueKind::text || value.kind != ValueKind::tensor)
      refuse(path, "found {} with {}", shown(key), shown(value));
    if (!names.insert(key.text).second) refuse(path, "found {} twice", shown(key));
    if (tensors.size() == kMaxTensors) refuse(path, "found more than {} tensors", kMaxTensors);
    tensors.push_back(make_tensor(file, key.text, value, path));
  }
  return tensors;
}

struct Strided {
  ElementType type;
  std::span<const std::int64_t> sizes, strides;
  std::int64_t offset;
};

/// Calls copy(place row by row, place in the storage, count) [bytes] for runs of elements that are
/// contiguous in both.
/// @pre `total` is the elements' size in bytes
template <typename Copy>
void walk(const Strided& tensor, std::size_t total, const Copy& copy) {
  const std::size_t bytes = element_bytes(tensor.type);
  std::size_t room = total;
  for (const std::int64_t size : tensor.sizes) {
    if (size == 0) return;
    EQT_CHECK(room % static_cast<std::size_t>(size) == 0, "{} bytes for a side of {}", room, size);
    room /= static_cast<std::size_t>(size);
  }
  EQT_CHECK(room == bytes, "room for elements of {} bytes instead of {}", room, bytes);
  // Trailing dimensions that are contiguous are copied as one run.
  std::size_t outer = tensor.sizes.size();
  std::int64_t run = 1;  // [elements]
  while (outer > 0 && (tensor.strides[outer - 1] == run || tensor.sizes[outer - 1] == 1))
    run *= tensor.sizes[--outer];
  const std::size_t run_bytes = static_cast<std::size_t>(run) * bytes;
  std::vector<std::int64_t> index(outer, 0);
  // [elements] Unsigned, because after the last element a step may leave the storage before the
  // next one returns.
  auto from = static_cast<std::size_t>(tensor.offset);
  for (std::size_t done = 0; done < total; done += run_bytes) {
    copy(done, from * bytes, run_bytes);
    for (std::size_t axis = outer; axis-- > 0;) {
      const auto stride = static_cast<std::size_t>(tensor.strides[axis]);
      from += stride;
      if (++index[axis] < tensor.sizes[axis]) break;
      from -= stride * static_cast<std::size_t>(tensor.sizes[axis]);
      index[axis] = 0;
    }
  }
}

/// Leaves out `module.` and `_orig_mod.` where all names begin so.
void strip_wrappers(std::vector<std::string_view>& names) {
  for (bool found = !names.empty(); found;) {
    found = false;
    for (const std::string_view prefix : {"module.", "_orig_mod."}) {
      const auto has = [&](std::string_view name) { return name.starts_with(prefix); };
      if (!std::ranges::all_of(names, has)) continue;
      for (std::string_view& name : names) name.remove_prefix(prefix.size());
      found = true;
    }
  }
}

}  // namespace

std::size_t elements_of(std::span<const std::int64_t> sizes) {
  std::size_t elements = 1;
  for (const std::int64_t side : sizes) elements *= static_cast<std::size_t>(side);
  return elements;
}

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0; stride *= std::max<std::int64_t>(1, sizes[i]))
    strides[i] = stride;
  return strides;
}

void copy_row_major(const Tensor& tensor, std::span<std::byte> out) {
  walk({tensor.type, tensor.sizes, tensor.strides, tensor.offset}, out.size(),
       [&](std::size_t done, std::size_t at, std::size_t bytes) {
         std::memcpy(out.data() + done, tensor.storage.data() + at, bytes);
       });
}

void copy_from_row_major(std::span<const std::byte> values, const Target& target) {
  walk({target.type, target.sizes, target.strides, 0}, values.size(),
       [&](std::size_t done, std::size_t at, std::size_t bytes) {
         std::memcpy(target.storage.data() + at, values.data() + done, bytes);
       });
}

StateDict::StateDict(std::vector<std::byte> file, const std::string& path) {
  if (is_safetensors(file)) {
    struct Held {
      std::vector<std::byte> bytes;
      Safetensors parts;
    };
    auto held = std::make_shared<Held>(Held{std::move(file), {}});
    held->parts = read_safetensors(held->bytes, path);
    tensors_ = std::move(held->parts.tensors);
    file_ = std::move(held);
  } else {
    auto held = std::make_shared<const TorchFile>(std::move(file), path);
    tensors_ = tensors_of(*held, path);
    file_ = std::move(held);
  }
  std::vector<std::string_view> names;
  for (const Tensor& tensor : tensors_) names.push_back(tensor.name);
  strip_wrappers(names);
  for (std::size_t i = 0; i < names.size(); ++i) tensors_[i].name = names[i];
}

StateDict read_state_dict(const std::string& path, std::uintmax_t most_bytes) {
  return StateDict(read_whole_bytes(path, {.what = "a weights file of this network",
                                           .max_bytes = most_bytes,
                                           .remedy = "check model.name and model.weights"}),
                   path);
}

namespace {

/// "[16, 3, 3, 3]"
std::string shape_text(std::span<const std::int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
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

/// Beginnings that all names have, each up to a dot, from "" on: "", "model.", "model.net.".
std::vector<std::string_view> common_beginnings(std::span<const std::string_view> names) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string_view> beginnings = {""};
  for (std::size_t dot = 0; !names.empty() && beginnings.size() < kMost; ++dot) {
    dot = names.front().find('.', dot);
    if (dot == std::string_view::npos) break;
    const std::string_view part = names.front().substr(0, dot + 1);
    if (!std::ranges::all_of(names, [&](auto name) { return name.starts_with(part); })) break;
    beginnings.push_back(part);
  }
  return beginnings;
}

/// Tells which names of the two sides are the same.
struct Matching {
  std::map<std::string, const Tensor*, std::less<>> found;  // by names of the network
  std::string twice;                     // a name that two tensors have; "": none
  std::vector<std::string_view> wanted;  // by target: its name there

  std::size_t count() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(wanted, [&](auto name) { return found.contains(name); }));
  }
};

/// @param of_file, of_network  beginnings that are left out
Matching match_without(std::string_view of_file, std::string_view of_network,
                       std::span<const Target> targets, std::span<const Tensor> found,
                       const FileNames& names) {
  Matching matching;
  for (const Target& target : targets)
    matching.wanted.push_back(std::string_view(target.name).substr(of_network.size()));
  for (const Tensor& tensor : found) {
    const std::string_view rest = tensor.name.substr(of_file.size());
    const std::string own = names.own ? names.own(rest) : std::string(rest);
    if (names.own && own.empty()) continue;
    if (!matching.found.emplace(own, &tensor).second) matching.twice = own;
  }
  return matching;
}

/// Leaves out a beginning that all names of one side have if more names are the same then.
Matching match_names(const std::string& path, std::span<const Target> targets,
                     std::span<const Tensor> found, const FileNames& names) {
  std::vector<std::string_view> in_file, in_network;
  for (const Tensor& tensor : found) in_file.push_back(tensor.name);
  for (const Target& target : targets) in_network.emplace_back(target.name);
  Matching best = match_without("", "", targets, found, names);
  const auto try_without = [&](std::string_view of_file, std::string_view of_network) {
    Matching other = match_without(of_file, of_network, targets, found, names);
    if (other.twice.empty() && other.count() > best.count()) best = std::move(other);
  };
  for (const std::string_view part : common_beginnings(in_network)) try_without("", part);
  for (const std::string_view part : common_beginnings(in_file)) try_without(part, "");
  if (!best.twice.empty())
    fail(Kind::data, "expected one tensor for {} in the weights file {}, found two",
         printable(best.twice), path);
  return best;
}

/// "; the nearest is NAME": the name of the file's that has most of `name` at its two ends, if that
/// is at least half, and belongs to none of the network's tensors. Else any name of the file's.
std::string nearest_text(std::string_view name, const Matching& matching) {
  std::size_t most = 0;
  std::string_view nearest;
  for (const auto& [own, tensor] : matching.found) {
    if (std::ranges::find(matching.wanted, std::string_view(own)) != matching.wanted.end())
      continue;
    const std::size_t length = std::min(name.size(), own.size());
    std::size_t begin = 0, end = 0;
    while (begin < length && own[begin] == name[begin]) ++begin;
    while (end < length - begin && own[own.size() - 1 - end] == name[name.size() - 1 - end]) ++end;
    if (begin + end <= most) continue;
    most = begin + end;
    nearest = tensor->name;
  }
  if (2 * most < name.size())
    return fmt::format("; it has {} and others; check model.name",
                       matching.found.empty() ? "none of a network"
                                              : printable(matching.found.begin()->second->name));
  return fmt::format("; the nearest is {}", printable(nearest));
}

/// Values of targets, by target, that were made from others; nothing: none were.
using Resized = std::vector<std::optional<std::vector<float>>>;

/// Returns true where the storage has at least as many elements as the tensor, which takes no more
/// memory then. Strides of 0 make a tensor of any size from a small file.
bool is_held_whole(const Tensor& tensor) {
  if (std::ranges::find(tensor.sizes, 0) != tensor.sizes.end()) return true;
  std::size_t left = tensor.storage.size() / element_bytes(tensor.type);
  for (const std::int64_t size : tensor.sizes) left /= static_cast<std::size_t>(size);
  return left > 0;
}

/// Makes the values of the targets whose sizes the file has otherwise, where it can.
Resized resize(const std::string& path, std::span<const Target> targets, const Matching& matching,
               const FileNames& names) {
  Resized resized(targets.size());
  for (std::size_t i = 0; names.can_resize && i < targets.size(); ++i) {
    const auto source = matching.found.find(matching.wanted[i]);
    if (source == matching.found.end() || source->second->sizes == targets[i].sizes) continue;
    Target same = targets[i];
    same.sizes = source->second->sizes;
    if (!names.can_resize(same.name, same.sizes) || !is_held_whole(*source->second)) continue;
    const std::vector<std::byte> bytes = fitting(path, same, *source->second);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    resized[i] = names.resized(targets[i].name, same.sizes, values);
  }
  return resized;
}

/// "fc." of "fc.weight".
std::string_view layer_of(std::string_view name) { return name.substr(0, name.rfind('.') + 1); }

/// The targets of the last layer, if the file has one of another number of outputs: by target.
/// @param resized  of targets whose sizes may differ
std::vector<bool> find_other_head(std::span<const Target> targets, const Matching& matching,
                                  std::int64_t outputs, const Resized& resized) {
  std::vector<bool> head(targets.size(), false);
  std::string_view layer;
  bool any = false;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto source = matching.found.find(matching.wanted[i]);
    if (source == matching.found.end()) continue;
    const std::vector<std::int64_t>& own = targets[i].sizes;
    const std::vector<std::int64_t>& other = source->second->sizes;
    if (own == other || resized[i]) continue;
    const bool differs_in_first = !own.empty() && own.size() == other.size() &&
                                  own.front() == outputs &&
                                  std::equal(own.begin() + 1, own.end(), other.begin() + 1);
    if (!differs_in_first || (any && layer_of(targets[i].name) != layer))
      return std::vector<bool>(targets.size(), false);
    layer = layer_of(targets[i].name);
    head[i] = any = true;
  }
  return head;
}

/// The targets of the last layer, if the file has all others and nothing else: by target.
std::vector<bool> find_missing_head(std::span<const Target> targets, const Matching& matching,
                                    std::string_view last_layer) {
  std::vector<bool> head(targets.size(), false);
  std::set<std::string_view> others;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    head[i] = !last_layer.empty() && targets[i].name.starts_with(last_layer);
    if (!head[i]) others.insert(matching.wanted[i]);
  }
  const bool has_others = std::ranges::any_of(
      others, [&](std::string_view name) { return matching.found.contains(name); });
  const bool has_more = std::ranges::any_of(
      matching.found, [&](const auto& item) { return !others.contains(item.first); });
  if (!has_others || has_more) return std::vector<bool>(targets.size(), false);
  return head;
}

/// Returns for each target whether it belongs to a last layer that starts new.
/// @throws Error{data} if there is one, and must not
std::vector<bool> find_new_head(const std::string& path, std::span<const Target> targets,
                                const Matching& matching, const FileNames& names,
                                const Resized& resized) {
  if (names.outputs == 0) return std::vector<bool>(targets.size(), false);
  std::vector<bool> head = find_other_head(targets, matching, names.outputs, resized);
  if (std::ranges::find(head, true) == head.end())
    head = find_missing_head(targets, matching, names.last_layer);
  const auto first = std::ranges::find(head, true);
  if (names.new_head || first == head.end()) return head;
  const auto i = static_cast<std::size_t>(first - head.begin());
  const auto found = matching.found.find(matching.wanted[i]);
  fail(
      Kind::data,
      "expected {} of shape {} in the weights file {}, found {}; set model.new_head to \"auto\" to "
      "start this layer new, or take weights of a network with {} outputs",
      targets[i].name, shape_text(targets[i].sizes), path,
      found == matching.found.end() ? "none of that name"
                                    : "shape " + shape_text(found->second->sizes),
      names.outputs);
}

/// The targets get these values.
struct NewValues {
  std::vector<std::vector<std::byte>> values;  // of each target, in their order; empty: none
  LoadedNames names;
};

/// Moves what the file has under further names of a tensor to its first name.
void settle_tied(const std::string& path, std::span<const Target> targets, NewValues& result) {
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < targets.size(); ++i) places.emplace(targets[i].name, i);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].tied_to.empty() || result.values[i].empty()) continue;
    const std::size_t first = places.at(targets[i].tied_to);
    if (result.values[first].empty()) {
      result.values[first] = std::move(result.values[i]);
    } else if (result.values[first] != result.values[i]) {
      fail(Kind::data,
           "expected the same values of {} and {}, which are one tensor of the network, in the "
           "weights file {}, found two; save them from a network that shares them",
           targets[first].name, targets[i].name, path);
    }
    result.values[i].clear();
  }
}

NewValues match(const std::string& path, std::span<const Target> targets,
                std::span<const Tensor> found, const FileNames& names) {
  const Matching matching = match_names(path, targets, found, names);
  const Resized resized = resize(path, targets, matching, names);
  const std::vector<bool> head = find_new_head(path, targets, matching, names, resized);
  std::set<std::string_view> present;  // first names of tensors of which the file has a name
  const auto first_name = [](const Target& target) {
    return std::string_view(target.tied_to.empty() ? target.name : target.tied_to);
  };
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (matching.found.contains(matching.wanted[i])) present.insert(first_name(targets[i]));

  NewValues result;
  auto unused = matching.found;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Target& target = targets[i];
    result.values.emplace_back();
    const auto source = unused.find(matching.wanted[i]);
    if (source != unused.end()) {
      if (head[i]) {
        result.names.kept.push_back(target.name);
      } else if (resized[i]) {
        const auto bytes = std::as_bytes(std::span(*resized[i]));
        result.values.back().assign(bytes.begin(), bytes.end());
        result.names.resized.push_back(target.name);
      } else {
        result.values.back() = fitting(path, target, *source->second);
      }
      unused.erase(source);
    } else if (present.contains(first_name(target))) {
      continue;
    } else if (head[i] || (names.optional && names.optional(target.name))) {
      result.names.kept.push_back(target.name);
    } else if (!target.name.ends_with("num_batches_tracked")) {
      fail(Kind::data, "expected a tensor {} in the weights file {}, found none of that name{}",
           target.name, path, nearest_text(matching.wanted[i], matching));
    }
  }
  if (!unused.empty()) {
    fail(Kind::data,
         "expected weights of this network in the file {}, found a tensor {} that it does not "
         "have; check model.name, model.shortcut and model.normalization",
         path, printable(unused.begin()->second->name));
  }
  settle_tied(path, targets, result);
  return result;
}

}  // namespace

LoadedNames load_state_dict(const std::string& path, std::span<const Target> targets,
                            const FileNames& names) {
  const StateDict file = read_state_dict(path, largest_file(targets));
  NewValues found = match(path, targets, file.tensors(), names);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (!found.values[i].empty()) copy_from_row_major(found.values[i], targets[i]);
  return std::move(found.names);
}

}  // namespace eqt::weights
