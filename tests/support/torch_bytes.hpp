// SPDX-License-Identifier: Apache-2.0
// Builds files of torch.save, for tests of their readers.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/zip_bytes.hpp"

namespace eqt::support {

/// Pieces of pickles of protocol 2; see Python's pickletools.
inline std::string pickled(std::string_view text) {
  return "X" + number_bytes(text.size(), 4) + std::string(text);
}
inline std::string pickled(std::int64_t number) {
  return "\x8a\x08" + number_bytes(static_cast<std::uint64_t>(number), 8);
}
inline std::string pickled_tuple(const std::vector<std::string>& items) {
  std::string all = "(";
  for (const std::string& item : items) all += item;
  return all + "t";
}
inline std::string pickled_counts(const std::vector<std::int64_t>& counts) {
  std::vector<std::string> items;
  for (const std::int64_t count : counts) items.push_back(pickled(count));
  return pickled_tuple(items);
}
inline std::string pickled_global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

/// A tensor of torch's class `type`, as _rebuild_tensor_v2 makes it.
struct PickledTensor {
  std::string type = "FloatStorage";
  std::string key = "0";
  std::int64_t elements = 6;  // of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
};
inline std::string pickled(const PickledTensor& tensor) {
  const std::string storage =
      pickled_tuple({pickled("storage"), pickled_global("torch", tensor.type), pickled(tensor.key),
                     pickled("cpu"), pickled(tensor.elements)}) +
      "Q";
  const std::string hooks = pickled_global("collections", "OrderedDict") + ")R";
  return pickled_global("torch._utils", "_rebuild_tensor_v2") +
         pickled_tuple({storage, pickled(tensor.offset), pickled_counts(tensor.sizes),
                        pickled_counts(tensor.strides), "\x89", hooks}) +
         "R";
}
/// @param items keys and values, alternating
inline std::string pickled_dict(const std::vector<std::string>& items) {
  std::string all = "}(";
  for (const std::string& item : items) all += item;
  return all + "u";
}
inline std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

/// A pickle and storages, numbered from 0, as an archive.
inline std::string torch_archive(const std::string& pickle,
                                 const std::vector<std::string>& storages) {
  std::vector<std::pair<std::string, std::string>> records = {{"archive/data.pkl", pickle}};
  for (std::size_t i = 0; i < storages.size(); ++i)
    records.emplace_back("archive/data/" + std::to_string(i), storages[i]);
  records.emplace_back("archive/version", "3\n");
  return zip_bytes(records);
}

}  // namespace eqt::support
