// SPDX-License-Identifier: Apache-2.0
#include "weights/torch_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "weights/foreign_file.hpp"
#include "weights/pickle.hpp"
#include "weights/state_dict.hpp"
#include "weights/zip_archive.hpp"

namespace eqt::weights {
namespace {

using ValueKind = PickleValue::Kind;

// Two pickles: 0x1950a86a20f9469cfc6c and the protocol 1001.
constexpr std::array<std::uint8_t, 21> kStreamHead = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                                      0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19,
                                                      0x2e, 0x80, 0x02, 0x4d, 0xe9, 0x03, 0x2e};
constexpr std::uint8_t kPickle = 0x80;  // its first byte

bool begins_with(std::span<const std::byte> file, std::span<const std::uint8_t> head) {
  return file.size() >= head.size() &&
         std::ranges::equal(file.first(head.size()), head, {},
                            [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The value of a text key in a dict; null if there is none.
const PickleValue* find(const Pickle& pickle, const PickleValue& dict, std::string_view key) {
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& found = pickle.at(dict.items[i]);
    if (found.kind == ValueKind::text && found.text == key) return &pickle.at(dict.items[i + 1]);
  }
  return nullptr;
}

}  // namespace

std::string root_of(const ZipArchive& archive, const ForeignFile& file) {
  constexpr std::string_view kEnd = "data.pkl";
  const std::string* found = nullptr;
  for (const ZipArchive::Record& record : archive.records()) {
    const bool fits = record.name.ends_with(kEnd) && record.name.size() > kEnd.size() &&
                      record.name.find('/') == record.name.size() - kEnd.size() - 1;
    if (fits && found != nullptr) refuse(file, "the archive has more than one record data.pkl");
    if (fits) found = &record.name;
  }
  if (found == nullptr) refuse(file, "the archive has no record data.pkl");
  return found->substr(0, found->size() - kEnd.size());
}

void require_byte_order(const ZipArchive& archive, const std::string& root,
                        const ForeignFile& file) {
  if (const auto* const order = archive.find(root + "byteorder"))
    if (text_of(archive.read(*order)) != "little") refuse(file, "its bytes are in another order");
}

TorchFile::TorchFile(std::vector<std::byte> file, const std::string& path)
    : TorchFile(read_parts(std::move(file), path)) {}

TorchFile::TorchFile(Parts parts)
    : held_(std::move(parts.held)),
      pickle_(std::move(parts.pickle)),
      storages_(std::move(parts.storages)) {}

std::span<const std::byte> TorchFile::bytes_of(const PickleValue& storage) const {
  return storages_.at(storage.text);
}

TorchFile::Parts TorchFile::read_parts(std::vector<std::byte> file, const std::string& path) {
  if (begins_with(file, kStreamHead)) return read_stream(std::move(file), path);
  if (begins_with(file, std::array{kPickle}))
    refuse(path, "it is a pickle of other things than torch.save's");
  return read_archive(file, path);
}

TorchFile::Parts TorchFile::read_archive(std::span<const std::byte> file, const std::string& path) {
  const ZipArchive archive(file, path);
  const std::string root = root_of(archive, path);
  require_byte_order(archive, root, path);
  std::vector<std::vector<std::byte>> held;
  held.push_back(archive.read(*archive.find(root + "data.pkl")));
  Pickle pickle(held.front(), path);
  Parts parts{std::move(held), std::move(pickle), {}};
  for (const PickleValue& value : parts.pickle.values()) {
    if (value.kind != ValueKind::storage || parts.storages.contains(value.text)) continue;
    const std::string name = fmt::format("{}data/{}", root, value.text);
    const ZipArchive::Record* const data = archive.find(name);
    if (data == nullptr) refuse(path, "the archive has no record {}", printable(name));
    parts.held.push_back(archive.read(*data));
    parts.storages.emplace(value.text, parts.held.back());
  }
  return parts;
}

TorchFile::Parts TorchFile::read_stream(std::vector<std::byte> file, const std::string& path) {
  std::vector<std::vector<std::byte>> held;
  held.push_back(std::move(file));
  std::span<const std::byte> rest = std::span(held.front()).subspan(kStreamHead.size());
  const auto next_pickle = [&] {
    Pickle pickle(rest, path);
    rest = rest.subspan(pickle.bytes_used());
    return pickle;
  };
  const Pickle machine = next_pickle();
  const PickleValue* const little = find(machine, machine.root(), "little_endian");
  if (little == nullptr || little->kind != ValueKind::truth || little->number == 0)
    refuse(path, "its bytes are in another order");
  Pickle pickle = next_pickle();
  Parts parts{std::move(held), std::move(pickle), {}};

  std::unordered_map<std::string_view, const PickleValue*> wanted;
  for (const PickleValue& value : parts.pickle.values())
    if (value.kind == ValueKind::storage) wanted.emplace(value.text, &value);
  const Pickle keys = next_pickle();
  if (keys.root().kind != ValueKind::list) refuse(path, "it has no list of storages");
  for (const ValueId id : keys.root().items) {
    const auto storage = wanted.find(keys.at(id).text);
    if (storage == wanted.end()) refuse(path, "it has a storage that it does not use");
    const PickleValue& value = *storage->second;
    constexpr std::size_t kCountBytes = 8;
    if (rest.size() < kCountBytes) refuse(path, "it ends too early");
    const std::uint64_t count = little_endian(rest, 0, kCountBytes);
    rest = rest.subspan(kCountBytes);
    if (std::cmp_not_equal(count, value.number))
      refuse(path, "it has a storage of {} elements instead of {}", count, value.number);
    if (count > rest.size() / element_bytes(value.type)) refuse(path, "it ends too early");
    const std::size_t bytes = count * element_bytes(value.type);
    if (!parts.storages.emplace(value.text, rest.first(bytes)).second)
      refuse(path, "it has a storage twice");
    rest = rest.subspan(bytes);
  }
  if (parts.storages.size() != wanted.size())
    refuse(path, "it lacks {} of {} storages", wanted.size() - parts.storages.size(),
           wanted.size());
  return parts;
}

// Writes what torch.save writes of a dict of tensors.
//
// Format   torch/serialization.py, _save: a zip archive without compression, with a pickle of the
//          dict and a record for each storage

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
  ZipWriter archive;
  const auto add = [&](const std::string& name, std::string_view text) {
    archive.add(std::string(kRoot) + name, std::as_bytes(std::span(text)));
  };
  add("data.pkl", pickle);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    archive.add(fmt::format("{}data/{}", kRoot, i),
                elements_of(tensor.sizes) * element_bytes(tensor.type),
                [&tensor](std::span<std::byte> out) { copy_row_major(tensor, out); });
  }
  add("version", kVersion);
  return std::move(archive).finish();
}

}  // namespace eqt::weights
