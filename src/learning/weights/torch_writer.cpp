// SPDX-License-Identifier: Apache-2.0
// Writes what torch.save writes of a dict of tensors.
//
// Format   torch/serialization.py, _save: a zip archive without compression, with a pickle of the
//          dict and a record for each storage

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "weights/pickle_globals.hpp"
#include "weights/state_dict.hpp"
#include "weights/zip_writer.hpp"

namespace eqt::weights {
namespace {

// The root folder of the archive and the version of its format, as torch.save writes them.
constexpr std::string_view kRoot = "archive/", kVersion = "3\n";

/// Writes a pickle of protocol 2: Python, Lib/pickletools.py.
class PickleWriter {
 public:
  PickleWriter() { code("\x80\x02"); }

  PickleWriter& code(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  PickleWriter& global(std::string_view module, std::string_view name) {
    text_.append("c").append(module).append("\n").append(name).append("\n");
    return *this;
  }
  PickleWriter& text(std::string_view value) {
    code("X").little_endian(value.size(), 4);
    return code(value);
  }
  /// @pre value >= 0
  PickleWriter& number(std::uint64_t value) {
    if (value <= 0xFF) return code("K").little_endian(value, 1);
    // Signed, so that the highest bit is never one of the value's.
    const auto bytes = static_cast<std::size_t>(std::bit_width(value)) / 8 + 1;
    return code("\x8a").little_endian(bytes, 1).little_endian(value, bytes);
  }
  PickleWriter& numbers(std::span<const std::int64_t> values) {
    code("(");
    for (const std::int64_t value : values) number(static_cast<std::uint64_t>(value));
    return code("t");
  }
  std::string finish() && { return std::move(text_ += '.'); }

 private:
  PickleWriter& little_endian(std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      text_ += static_cast<char>(i < sizeof value ? value >> (8 * i) & 0xFF : 0);
    return *this;
  }

  std::string text_;
};

/// torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks) for each.
std::string pickle_of(std::span<const Tensor> tensors) {
  PickleWriter pickle;
  pickle.code("}(");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    pickle.text(tensor.name).global("torch._utils", "_rebuild_tensor_v2").code("((");
    pickle.text("storage").global("torch", storage_class(tensor.type)).text(std::to_string(i));
    pickle.text("cpu").number(elements_of(tensor.sizes)).code("tQ").number(0);
    pickle.numbers(tensor.sizes).numbers(row_major_strides(tensor.sizes)).code("\x89");
    pickle.global("collections", "OrderedDict").code(")RtR");
  }
  pickle.code("u");
  return std::move(pickle).finish();
}

}  // namespace

std::string pack_state_dict(std::span<const Tensor> tensors) {
  const std::string pickle = pickle_of(tensors);
  std::vector<std::vector<std::byte>> storages;
  for (const Tensor& tensor : tensors) {
    storages.emplace_back(elements_of(tensor.sizes) * element_bytes(tensor.type));
    copy_row_major(tensor, storages.back());
  }
  ZipWriter archive;
  const auto add = [&](const std::string& name, std::span<const std::byte> bytes) {
    archive.add(std::string(kRoot) + name, bytes);
  };
  add("data.pkl", std::as_bytes(std::span(pickle)));
  for (std::size_t i = 0; i < storages.size(); ++i) add("data/" + std::to_string(i), storages[i]);
  add("version", std::as_bytes(std::span(kVersion)));
  return std::move(archive).finish();
}

}  // namespace eqt::weights
