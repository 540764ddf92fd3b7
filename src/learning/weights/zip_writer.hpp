// SPDX-License-Identifier: Apache-2.0
// Writes zip archives with libzip. Private to this room.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "weights/zip_archive.hpp"

struct zip_source;  // libzip's

namespace eqt::weights {

/// An archive in memory whose records are not compressed, each at a multiple of 64 bytes, as
/// LibTorch aligns storages.
class ZipWriter {
 public:
  ZipWriter();
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// The bytes must stay until finish().
  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Another archive's record, which must stay until finish().
  void add(const std::string& name, const ZipArchive& archive, const ZipArchive::Record& record);

  std::string finish() &&;

 private:
  struct Free {
    void operator()(zip_source* source) const;
  };

  void require(bool done) const;
  void add(const std::string& name, zip_source* source, std::size_t bytes);
  void pad(std::uint64_t index, std::size_t name_bytes);

  std::unique_ptr<zip_source, Free> file_;
  zip* archive_ = nullptr;
  std::size_t at_ = 0;  // [bytes] where the next record begins
};

}  // namespace eqt::weights
