// SPDX-License-Identifier: Apache-2.0
// Files that torch.save writes: a pickle and the bytes of its storages. Private to this room.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weights/pickle.hpp"
#include "weights/zip_archive.hpp"

namespace eqt::weights {

/// "archive/", the folder of the one record data.pkl.
/// @throws Error{data} if there is none, or more
std::string root_of(const ZipArchive& archive, const ForeignFile& file);

/// @throws Error{data} if the archive says that its numbers are not little-endian
void require_byte_order(const ZipArchive& archive, const std::string& root,
                        const ForeignFile& file);

/// Either format: a zip archive with the records STEM/data.pkl and STEM/data/KEY, or, before
/// torch 1.6, pickles of a magic number, the protocol, the machine and the object, followed by the
/// storages: a pickled list of keys, then the elements of each (torch/serialization.py, _save and
/// _legacy_save).
class TorchFile {
 public:
  /// @param path for messages
  /// @throws Error{data} unless every storage that the pickle names is complete and undamaged
  TorchFile(std::vector<std::byte> file, const std::string& path);

  const Pickle& pickle() const { return pickle_; }
  /// All bytes of a storage of the pickle. They may be fewer than its elements need, if the file
  /// has no more.
  std::span<const std::byte> bytes_of(const PickleValue& storage) const;

 private:
  using Storages = std::unordered_map<std::string_view, std::span<const std::byte>>;
  struct Parts {
    std::vector<std::vector<std::byte>> held;  // referred to by pickle and storages
    Pickle pickle;
    Storages storages;  // by key
  };
  explicit TorchFile(Parts parts);
  static Parts read_parts(std::vector<std::byte> file, const std::string& path);
  static Parts read_archive(std::span<const std::byte> file, const std::string& path);
  static Parts read_stream(std::vector<std::byte> file, const std::string& path);

  std::vector<std::vector<std::byte>> held_;
  Pickle pickle_;
  Storages storages_;
};

}  // namespace eqt::weights
