// SPDX-License-Identifier: Apache-2.0
#include "weights/script_archive.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "weights/pickle.hpp"
#include "weights/pickle_globals.hpp"
#include "weights/refuse.hpp"
#include "weights/script_code.hpp"
#include "weights/torch_file.hpp"
#include "weights/zip_archive.hpp"
#include "weights/zip_writer.hpp"

namespace eqt::weights {
namespace {

using ValueKind = PickleValue::Kind;

constexpr std::size_t kMaxCode = std::size_t{32} << 20;  // [bytes] of all files
// A value's levels; a module inside another one has two. Then values, each counted as often as a
// walk from the root meets it, as LibTorch does with modules.
constexpr std::uint64_t kDeepest = 256, kMostMet = std::uint64_t{1} << 24;
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;  // of a tensor: no overflow follows
// LibTorch reads a storage again for each tensor on it.
constexpr std::uint64_t kMostCopies = 4;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_key(ValueKind kind) {
  return kind == ValueKind::text || kind == ValueKind::number || kind == ValueKind::truth ||
         kind == ValueKind::real;
}

class Walk {
 public:
  Walk(std::span<const std::byte> bytes, const std::string& path)
      : file_(path, Holds::script),
        archive_(bytes, file_),
        root_(root_of(archive_, file_)),
        code_(file_),
        bytes_left_(kMostCopies * bytes.size()) {}

  std::string checked() {
    require_byte_order(archive_, root_, file_);
    keep_version();
    keep_code();
    keep_values("data", ValueKind::object);
    keep_values("constants", ValueKind::tuple);
    ZipWriter out;
    for (const ZipArchive::Record* const record : kept_) out.add(record->name, archive_, *record);
    return std::move(out).finish();
  }

 private:
  const ZipArchive::Record& find(const std::string& name) const {
    const ZipArchive::Record* const record = archive_.find(root_ + name);
    if (record == nullptr) refuse(file_, "the archive has no record {}", printable(name));
    if (record->compressed) refuse(file_, "its record {} is compressed", printable(name));
    return *record;
  }

  void keep_version() {
    const bool hidden = archive_.find(root_ + ".data/version") != nullptr;
    const ZipArchive::Record& record = find(hidden ? ".data/version" : "version");
    const std::vector<std::byte> bytes = archive_.read(record);
    std::string_view digits = text_of(bytes);
    if (digits.ends_with('\n')) digits.remove_suffix(1);
    constexpr std::size_t kLongest = 4;
    const bool fits = !digits.empty() && digits.size() <= kLongest &&
                      digits.find_first_not_of("0123456789") == digits.npos;
    if (!fits) refuse(file_, "its version is no number");
    kept_.insert(&record);
  }

  void keep_code() {
    const std::string folder = root_ + "code/";
    constexpr std::string_view kEnd = ".py";
    std::size_t left = kMaxCode;
    for (const ZipArchive::Record& record : archive_.records()) {
      if (!record.name.starts_with(folder) || !record.name.ends_with(kEnd)) continue;
      const std::string_view below = std::string_view(record.name).substr(folder.size());
      std::string module(below.substr(0, below.size() - std::min(below.size(), kEnd.size())));
      if (module.find('.') != module.npos) continue;  // LibTorch never looks for it
      std::ranges::replace(module, '/', '.');
      if (record.bytes > left) refuse(file_, "its code has more than {} MiB", kMaxCode >> 20);
      left -= record.bytes;
      const std::vector<std::byte> bytes = archive_.read(record);
      code_.read(module, text_of(bytes));
      kept_.insert(&record);
    }
    code_.check_names();
  }

  void keep_values(const std::string& name, ValueKind root) {
    const ZipArchive::Record& record = find(name + ".pkl");
    const std::vector<std::byte> bytes = archive_.read(record);
    const Pickle pickle(bytes, file_);
    if (pickle.root().kind != root)
      refuse(file_, "its record {}.pkl is {} instead of {}", name, kind_name(pickle.root().kind),
             kind_name(root));
    for (const PickleValue& value : pickle.values()) check(pickle, value, root);
    check_nesting(pickle);
    kept_.insert(&record);
    for (const PickleValue& value : pickle.values())
      if (value.kind == ValueKind::storage) keep_storage(name, value);
  }

  void check(const Pickle& pickle, const PickleValue& value, ValueKind root) const {
    const bool is_class = value.kind == ValueKind::global &&
                          value.global == static_cast<std::uint8_t>(Global::script_class);
    if (value.kind == ValueKind::object || is_class) {
      const std::string name = class_name(value);
      const auto kind = code_.kind_of(name);
      if (root != ValueKind::object) refuse(file_, "it has an object as a constant");
      if (kind == ScriptCode::ClassKind::none ||
          (!is_class && kind != ScriptCode::ClassKind::with_objects))
        refuse(file_, "it has an object of {}, which is no class of its code", printable(name));
    } else if (value.kind == ValueKind::enumerator) {
      if (!code_.has_value(class_name(value), pickle.at(value.items[0])))
        refuse(file_, "it has a value of {}, which is no enumeration of its code with that value",
               printable(class_name(value)));
    } else if (value.kind == ValueKind::dict) {
      for (std::size_t i = 0; i < value.items.size(); i += 2)
        if (const ValueKind key = pickle.at(value.items[i]).kind; !is_key(key))
          refuse(file_, "it has a dict with {} as a key", kind_name(key));
    } else if (value.kind == ValueKind::tensor) {
      check_tensor(pickle, value);
    }
  }

  void check_tensor(const Pickle& pickle, const PickleValue& value) const {
    const PickleValue& storage = pickle.at(value.items[0]);
    const ElementPlaces places = places_of(pickle, value);
    std::int64_t elements = 1;
    bool fits = places.offset <= storage.number && places.lies_in(storage.number);
    for (std::size_t i = 0; i < places.sizes.size(); ++i) {
      const std::int64_t side = std::max<std::int64_t>(1, places.sizes[i]);
      fits = fits && side <= kMostElements / elements && places.strides[i] <= kMostElements;
      if (fits) elements *= side;
    }
    if (!fits)
      refuse(file_, "it has a tensor that is not in its storage {} of {} elements",
             printable(storage.text), storage.number);
  }

  void keep_storage(const std::string& folder, const PickleValue& storage) {
    if (storage.number == 0) return;  // LibTorch does not look for it
    const std::string name = fmt::format("{}/{}", folder, storage.text);
    const ZipArchive::Record& record = find(name);
    const std::size_t size = element_bytes(storage.type);
    if (std::cmp_not_equal(record.bytes / size, storage.number))
      refuse(file_, "its record {} has {} bytes instead of {} {} elements", printable(name),
             record.bytes, storage.number, element_name(storage.type));
    if (record.bytes > bytes_left_)
      refuse(file_, "its tensors have more than {} times its bytes", kMostCopies);
    bytes_left_ -= record.bytes;
    if (!kept_.insert(&record).second) return;
    (void)archive_.read(record);  // for its checksum
  }

  /// No value contains itself, is too deep, or is met too often.
  void check_nesting(const Pickle& pickle) const {
    struct Node {
      std::size_t taken = 0;  // of its items
      std::uint64_t depth = 0, met = 0;
      bool is_open = false;
    };
    std::vector<Node> nodes(pickle.values().size());
    std::vector<ValueId> path;
    const auto enter = [&](ValueId id) {
      nodes[id] = {.taken = 0, .depth = 1, .met = 1, .is_open = true};
      path.push_back(id);
    };
    const auto add = [&](Node& node, const Node& item) {
      node.depth = std::max(node.depth, item.depth + 1);
      node.met += item.met;
      if (node.depth > kDeepest)
        refuse(file_, "it has more than {} values in each other", kDeepest);
      if (node.met > kMostMet) refuse(file_, "it has the same values too often");
    };
    for (ValueId start = 0; start < nodes.size(); ++start) {
      if (nodes[start].depth == 0) enter(start);
      while (!path.empty()) {
        const ValueId id = path.back();
        Node& node = nodes[id];
        const std::vector<ValueId>& items = pickle.at(id).items;
        if (node.taken == items.size()) {
          node.is_open = false;
          path.pop_back();
          continue;
        }
        const Node& item = nodes[items[node.taken]];
        if (item.is_open) refuse(file_, "it has a value that contains itself");
        if (item.depth == 0) {
          if (path.size() > kDeepest)
            refuse(file_, "it has more than {} values in each other", kDeepest);
          enter(items[node.taken]);
        } else {
          add(node, item);
          ++node.taken;
        }
      }
    }
  }

  const ForeignFile file_;
  const ZipArchive archive_;
  const std::string root_;
  ScriptCode code_;
  std::uint64_t bytes_left_;
  std::set<const ZipArchive::Record*> kept_;  // in the order of their names
};

}  // namespace

std::string checked_script(std::span<const std::byte> bytes, const std::string& path) {
  return Walk(bytes, path).checked();
}

}  // namespace eqt::weights
