// SPDX-License-Identifier: Apache-2.0
#include "weights/state_dict.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "core/whole_file.hpp"
#include "weights/refuse.hpp"
#include "weights/safetensors.hpp"
#include "weights/torch_file.hpp"

namespace eqt::weights {
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

}  // namespace eqt::weights
