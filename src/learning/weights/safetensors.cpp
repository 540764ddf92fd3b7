// SPDX-License-Identifier: Apache-2.0
#include "weights/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "weights/foreign_file.hpp"

namespace eqt::weights {
namespace {

/// These names occur in headers.
constexpr std::string_view kSafetensorsMetadata = "__metadata__";

struct SafetensorsType {
  std::string_view name;
  ElementType type;
};
constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F32", ElementType::float32}, {"F16", ElementType::float16}, {"BF16", ElementType::bfloat16},
    {"F64", ElementType::float64}, {"I64", ElementType::int64},   {"I32", ElementType::int32},
    {"I16", ElementType::int16},   {"I8", ElementType::int8},     {"U8", ElementType::uint8},
    {"BOOL", ElementType::boolean}};

std::string_view safetensors_name(ElementType type) {
  const auto* const found = std::ranges::find(kSafetensorsTypes, type, &SafetensorsType::type);
  EQT_CHECK(found != std::end(kSafetensorsTypes), "no name for {}", element_name(type));
  return found->name;
}

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
// The format's own limit. JSON in memory is some ten times as long as its text.
constexpr std::size_t kLongestHeader = 100'000'000;
constexpr std::size_t kMaxTensors = std::size_t{1} << 16;
constexpr std::size_t kMaxDimensions = 64;

/// Reads the header one value at a time, so that memory stays linear in its length and a name that
/// occurs twice is seen. A handler of nlohmann::json::sax_parse().
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  struct Entry {
    std::string name;
    std::optional<ElementType> type;
    std::optional<std::vector<std::int64_t>> shape;
    std::optional<std::vector<std::int64_t>> offsets;
  };

  explicit HeaderReader(const std::string& path) : path_(path) {}

  std::vector<Entry> take_entries() { return std::move(entries_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_float(double, const std::string&) override { return unexpected("a fraction"); }
  bool number_integer(std::int64_t) override { return unexpected("a negative number"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(std::uint64_t number) override {
    if (list_ == nullptr) return unexpected("a number");
    if (!std::in_range<std::int64_t>(number)) return unexpected("a number beyond 63 bits");
    if (list_->size() == kMaxDimensions) return unexpected("more than 64 dimensions");
    list_->push_back(static_cast<std::int64_t>(number));
    return true;
  }

  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || key_ != "dtype") return unexpected("a text");
    const auto* const found =
        std::ranges::find(kSafetensorsTypes, std::string_view(text), &SafetensorsType::name);
    if (found == std::end(kSafetensorsTypes))
      refuse(path_, "its header has {} of type {}, which is none of {}", printable(entry().name),
             printable(text), "F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL");
    if (entry().type) return unexpected("dtype twice");
    entry().type = found->type;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ >= 2 || list_ != nullptr) return unexpected("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    in_metadata_ = false;
    return true;
  }

  bool key(std::string& text) override {
    if (depth_ == 2) {
      key_ = text;
      return true;
    }
    if (!names_.insert(text).second) refuse(path_, "its header has {} twice", printable(text));
    in_metadata_ = text == kSafetensorsMetadata;
    if (in_metadata_) return true;
    if (entries_.size() == kMaxTensors) refuse(path_, "found more than {} tensors", kMaxTensors);
    entries_.push_back({.name = text, .type = {}, .shape = {}, .offsets = {}});
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr) return unexpected("a list");
    auto& place = key_ == "shape" ? entry().shape : entry().offsets;
    if (key_ != "shape" && key_ != "data_offsets") return unexpected("a list");
    if (place) return unexpected("a list twice");
    list_ = &place.emplace();
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t at, const std::string&, const json::exception&) override {
    refuse(path_, "its header is no JSON at byte {}", kLengthBytes + at);
  }

 private:
  Entry& entry() { return entries_.back(); }

  [[noreturn]] bool unexpected(std::string_view what) const {
    refuse(path_,
           "its header has {} {}, where dtype, shape and data_offsets of tensors are expected",
           what, entries_.empty() ? "at its beginning" : "for " + printable(entries_.back().name));
  }

  const std::string& path_;
  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
  std::string key_;
  std::vector<std::int64_t>* list_ = nullptr;  // that is open
  int depth_ = 0;                              // of objects
  bool in_metadata_ = false;
};

/// The tensor of an entry, whose bytes lie within `data`.
Tensor make_tensor(const HeaderReader::Entry& entry, std::span<const std::byte> data,
                   const std::string& path) {
  const std::string name = printable(entry.name);
  if (!entry.type || !entry.shape || !entry.offsets || entry.offsets->size() != 2)
    refuse(path, "its header lacks dtype, shape or two data_offsets of {}", name);
  const auto begin = static_cast<std::uint64_t>(entry.offsets->front());
  const auto end = static_cast<std::uint64_t>(entry.offsets->back());
  if (begin > end || end > data.size())
    refuse(path, "{} lies in bytes {} to {} of {}", name, begin, end, data.size());
  const bool empty = std::ranges::find(*entry.shape, 0) != entry.shape->end();
  std::vector<std::int64_t> strides(entry.shape->size());
  std::uint64_t elements = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = static_cast<std::int64_t>(elements);
    const auto side = static_cast<std::uint64_t>((*entry.shape)[i]);
    // A side of 0 makes any other side allowed; strides stay numbers that can be added.
    if (empty) continue;
    if (elements > data.size() / side)
      refuse(path, "{} has more elements than the file has bytes", name);
    elements *= side;
  }
  const std::uint64_t bytes = empty ? 0 : elements * element_bytes(*entry.type);
  if (bytes != end - begin)
    refuse(path, "{} needs {} bytes by type and shape, and has {}", name, bytes, end - begin);
  return {.name = entry.name,
          .type = *entry.type,
          .sizes = *entry.shape,
          .strides = std::move(strides),
          .offset = 0,
          .storage = data.subspan(begin, end - begin)};
}

}  // namespace

bool is_safetensors(std::span<const std::byte> file) {
  return file.size() > kLengthBytes && file[kLengthBytes] == std::byte{'{'};
}

Safetensors read_safetensors(std::span<const std::byte> file, const std::string& path) {
  EQT_CHECK(is_safetensors(file), "{} does not begin as safetensors do", path);
  const std::uint64_t length = little_endian(file, 0, kLengthBytes);
  if (length > std::min<std::uint64_t>(file.size() - kLengthBytes, kLongestHeader))
    refuse(path, "its header of {} bytes is longer than the file or than {} bytes", length,
           kLongestHeader);
  const auto* const text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  HeaderReader reader(path);
  json::sax_parse(text, text + length, &reader);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + length);

  Safetensors found;
  std::vector<HeaderReader::Entry> entries = reader.take_entries();
  found.names.reserve(entries.size());  // views of short texts break when these move
  for (const HeaderReader::Entry& entry : entries) {
    found.tensors.push_back(make_tensor(entry, data, path));
    found.tensors.back().name = found.names.emplace_back(entry.name);
  }
  std::ranges::stable_sort(found.tensors, {}, [](const Tensor& t) {
    return std::pair(t.storage.data(), t.storage.size());
  });
  const std::byte* next = data.data();
  for (const Tensor& tensor : found.tensors) {
    if (tensor.storage.data() != next)
      refuse(path, "{} overlaps another tensor or leaves bytes before it", printable(tensor.name));
    next += tensor.storage.size();
  }
  if (next != data.data() + data.size())
    refuse(path, "{} bytes behind the last tensor belong to none",
           data.data() + data.size() - next);
  return found;
}

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
